//! A revocation always reaches its resource: with real pods, of which some die, stand still, or cannot be reached.

mod at_length;
mod broken;
mod crash;
mod late;
mod matrix;
mod operator;
mod out_of_reach;

mod paused;
mod places;
mod proxy;
mod retries;
