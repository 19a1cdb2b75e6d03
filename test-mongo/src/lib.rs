//! A real MongoDB for tests and demos.
