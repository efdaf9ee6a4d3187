//! Stacks, their serial mutation queue, checkpoints, history and rollback over any backend.
