//! Chains from synthetic worlds.

mod bounds;
mod ends;
mod mixed;
mod scripts;
mod ways;
mod world;
