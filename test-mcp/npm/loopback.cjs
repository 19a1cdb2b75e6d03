// Loaded before a server (`node --require`): where the server names no address, it listens on loopback alone,
// and it says where it listens once it really does.
'use strict';

const { Server } = require('node:net');
const LOOPBACK = '127.0.0.1';
const { listen } = Server.prototype;

Server.prototype.listen = function (first, ...rest) {
  this.once('listening', () => {
    const { address, port } = this.address();
    console.error(`test-mcp: listens on ${address} port ${port}`);
  });
  if (isPort(first) && typeof rest[0] !== 'string') {
    return listen.call(this, first, LOOPBACK, ...rest);
  }
  if (isPort(first?.port) && first.host === undefined) {
    return listen.call(this, { ...first, host: LOOPBACK }, ...rest);
  }
  return listen.call(this, first, ...rest);
};

function isPort(value) {
  return typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value));
}
