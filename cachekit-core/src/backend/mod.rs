//! What a backend is: the two traits, what it declares, and how a URL finds it.

mod capabilities;
mod changes;
mod factory;
mod lock;
#[cfg(feature = "cache")]
mod migrating;
mod options;
mod registry;
mod server_address;
mod subscription;
mod traits;
mod url;
mod url_option;

pub use capabilities::{Capabilities, LockScope};
pub use changes::{Change, ChangeReporter, Changes};
pub use factory::BackendFactory;
pub use lock::LockToken;
#[cfg(feature = "cache")]
pub use migrating::MigratingFactory;
pub use options::{BackendHealth, SetOptions, TtlState};
pub use registry::{FactoryConstructor, Registry};
pub use server_address::ServerAddress;
pub use subscription::{Message, Subscription};
pub use traits::Backend;
pub use url::BackendUrl;
pub use url_option::UrlOption;
