//! The parts of a brain, on a real MongoDB with a database for each test.

mod pods;
