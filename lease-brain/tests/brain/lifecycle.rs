//! From nothing to a pod, and back.
