//! Every route, in every case.
