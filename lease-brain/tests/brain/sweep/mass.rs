//! Very many leases at once.
