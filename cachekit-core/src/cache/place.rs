//! Which entry a call is about.

use super::{Cache, Error};
use crate::key::Key;
use crate::seal::SealContext;
use std::borrow::Cow;

/// A checked key as the tiers know it, and the tenant that a sealer binds its entry to.
pub(super) struct Place<'a> {
    pub(super) key: Key,
    tenant: Cow<'a, str>,
}

impl Cache {
    pub(super) fn place<'a>(&'a self, key: &'a str) -> Result<Place<'a>, Error> {
        let checked = self.scope.key(key)?;
        let Some(sealer) = &self.shared.sealer else { return Ok(Place { key: checked, tenant: Cow::Borrowed("") }) };
        let tenant = match self.scope.tenant() {
            Some(tenant) => Cow::Borrowed(tenant),
            None => sealer.tenant_of(key).unwrap_or_default(),
        };
        let key = match sealer.stored_key(self.scope.prefix(), checked.stored()) {
            Some(hidden) => checked.renamed(&hidden),
            None => checked,
        };
        Ok(Place { key, tenant })
    }

    pub(super) fn seal_context<'a>(&'a self, place: &'a Place<'_>) -> SealContext<'a> {
        SealContext { namespace: self.scope.namespace(), stored_key: place.key.stored(), tenant: &place.tenant }
    }
}
