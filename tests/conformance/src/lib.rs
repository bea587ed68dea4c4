#![doc = include_str!("../README.md")]

mod abandon;
mod check;
mod checks;
mod failure;
mod report;
mod run;
mod subject;
mod table;
mod target;
mod timing;

pub use check::{CHECKS, Check};
pub use failure::{Blame, Failure};
pub use report::{Report, run_all};
#[doc(hidden)]
pub use run::run_named;
pub use target::Target;
