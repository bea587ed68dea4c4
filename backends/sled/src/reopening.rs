//! Opening the files of a path with what is known of whoever had them open before in this process.

use crate::SledConfig;
use crate::cancel::Cancel;
use crate::databases::was_set_aside;
use crate::directory::Directory;
use crate::error::is_damage;
use crate::lifetime::Time;
use crate::opening::{Unopened, within};
use crate::store::Store;
use crate::table::Table;
use cachekit_core::{BackendError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a database that failed left on the disk.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) opening: u64,
    pub(crate) damage: Option<String>,
    /// What the files have for these is not known, so it is removed.
    pub(crate) doubtful: Vec<String>,
    /// The database it is about. When it is not there any more, somebody has set it aside already.
    pub(crate) rows: PathBuf,
    /// Until it is closed it is locked, and some thread may never come back from it.
    pub(crate) directory: Option<Directory>,
}

impl Left {
    pub(crate) fn by(store: &Store, opening: u64, damage: Option<String>) -> Self {
        let (rows, directory) = (store.tables().current.directory().to_owned(), Some(store.directory.clone()));
        Self { opening, damage, doubtful: Vec::new(), rows, directory }
    }
}

/// Opens the files, or, when they are damaged and it may, sets them aside and makes new ones.
pub(crate) fn open_store(
    path: &Path,
    left: &mut Option<Left>,
    config: &SledConfig,
    time: &Arc<dyn Time>,
) -> Result<Store, BackendError> {
    let still_locked = left.as_mut().and_then(|left| left.directory.take());
    if left.as_ref().is_some_and(|left| !left.rows.exists()) {
        *left = None;
    }
    let damage = left.as_ref().and_then(|left| left.damage.clone());
    if let Some(why) = damage.as_ref().filter(|_| config.strict()) {
        let what = format!("the sled database `{}` is damaged: {why}", path.display());
        return Err(BackendError::new(ErrorKind::Decode, what));
    }
    let mut directory = match still_locked.filter(|_| damage.is_some()) {
        Some(still_locked) => still_locked,
        None => Directory::lock(path)?,
    };
    if let Some(why) = damage {
        directory = replace(directory, config, BackendError::new(ErrorKind::Decode, why))?;
        *left = None;
    }
    let error = match open_table(&directory, config) {
        Ok(table) => {
            let store = Store::new(directory, table, config, time.clone());
            for key in left.iter().flat_map(|left| &left.doubtful) {
                store.delete(key, &Cancel::default())?;
            }
            *left = None;
            return Ok(store);
        }
        Err(Unopened::Failed(error)) if !is_damage(&error) => return Err(error),
        Err(Unopened::Failed(error) | Unopened::Late(error)) => error,
    };
    directory = replace(directory, config, error)?;
    *left = None;
    match open_table(&directory, config) {
        Ok(table) => Ok(Store::new(directory, table, config, time.clone())),
        Err(Unopened::Failed(error) | Unopened::Late(error)) => Err(error),
    }
}

fn open_table(directory: &Directory, config: &SledConfig) -> Result<Table, Unopened> {
    let rows = directory.rows().map_err(Unopened::Failed)?;
    let bytes = Table::size_of(&rows);
    // The lock goes with it: while a thread may still write there, nobody else opens it.
    let (lock, its_config) = (directory.clone(), config.clone());
    within(config.open_timeout(), bytes, directory.path(), move || {
        let opened = Table::open(&rows, &its_config);
        drop(lock);
        opened
    })
}

/// Sets a damaged directory aside, and says so, or fails with the error that it was found by.
fn replace(directory: Directory, config: &SledConfig, error: BackendError) -> Result<Directory, BackendError> {
    if config.strict() {
        return Err(error);
    }
    let path = directory.path().to_owned();
    let (fresh, aside) = directory.replace()?;
    tracing::warn!(
        path = %path.display(), set_aside = %aside.display(), %error,
        "a damaged cache directory was set aside; going on with an empty one"
    );
    was_set_aside(path, aside);
    Ok(fresh)
}
