//! cachekit
