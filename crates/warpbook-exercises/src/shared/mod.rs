//! Exercises of lesson 02: threads that work together through shared memory.
