//! Moving from one store to another without a cold cache.

mod backend;
mod copies;
mod factory;
mod old;
#[cfg(all(test, feature = "testing"))]
mod tests;

pub use factory::MigratingFactory;
