//! What the engine promises, over the memory backend and a world that is made up.
