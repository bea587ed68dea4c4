//! Values to bytes and back.

use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::error::Error as StdError;
use std::fmt::{self, Debug};
use std::io;
use std::sync::Arc;

/// What a codec reports. Core counts it and never prints it, since it may quote the value.
pub type CodecError = Box<dyn StdError + Send + Sync>;

/// Receives the deserializer of one document; see [`Codec::decode`].
pub type DecodeInto<'a> = &'a mut dyn FnMut(&mut dyn erased_serde::Deserializer<'_>) -> Result<(), erased_serde::Error>;

/// A wire format of your own, for [`CacheBuilder::codec`](crate::CacheBuilder::codec).
///
/// Without one a cache writes MessagePack with named fields, so that a field can be added or removed without an old
/// entry being read wrongly.
///
/// ```
/// # #[cfg(feature = "json")] {
/// use cachekit_core::{Codec, CodecError, DecodeInto};
///
/// #[derive(Debug)]
/// struct PrettyJson;
///
/// impl Codec for PrettyJson {
///     fn format(&self) -> u8 {
///         200
///     }
///     fn encode(&self, value: &dyn erased_serde::Serialize, out: &mut Vec<u8>) -> Result<(), CodecError> {
///         Ok(serde_json::to_writer_pretty(out, value)?)
///     }
///     fn decode(&self, bytes: &[u8], into: DecodeInto<'_>) -> Result<(), CodecError> {
///         let mut json = serde_json::Deserializer::from_slice(bytes);
///         into(&mut <dyn erased_serde::Deserializer>::erase(&mut json))?;
///         Ok(json.end()?)
///     }
/// }
/// # }
/// ```
pub trait Codec: Debug + Send + Sync + 'static {
    /// The number that entries carry, 128 to 255: an entry of another format is a miss, whatever its bytes.
    fn format(&self) -> u8;

    /// Appends the encoded value.
    ///
    /// # Errors
    ///
    /// When the value cannot be expressed.
    fn encode(&self, value: &dyn erased_serde::Serialize, out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Decodes exactly one document: hands its deserializer to `into`, then checks that nothing comes after it.
    ///
    /// # Errors
    ///
    /// When the bytes are not one whole document of the type asked for.
    fn decode(&self, bytes: &[u8], into: DecodeInto<'_>) -> Result<(), CodecError>;
}

/// The codec of a cache. The built-in ones know the value's type and go without dynamic dispatch.
#[derive(Clone, Debug, Default)]
pub(crate) enum Encoding {
    Custom(Arc<dyn Codec>),
    #[cfg(feature = "json")]
    Json,
    #[default]
    MessagePack,
}

/// Deeper nesting than this is refused, so that hostile bytes cannot exhaust the stack.
const MAX_DEPTH: usize = 128;

impl Encoding {
    pub(crate) fn format(&self) -> u8 {
        match self {
            Self::Custom(codec) => codec.format(),
            #[cfg(feature = "json")]
            Self::Json => 2,
            Self::MessagePack => 1,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Custom(_) => "custom",
            #[cfg(feature = "json")]
            Self::Json => "json",
            Self::MessagePack => "messagepack",
        }
    }

    /// Appends the encoded value, and keeps room for `tail` bytes more, so that a sealer's tag does not move it.
    pub(crate) fn encode<V: Serialize>(&self, value: &V, out: &mut Vec<u8>, tail: usize) -> Result<(), CodecError> {
        match self {
            Self::Custom(codec) => codec.encode(value, out),
            #[cfg(feature = "json")]
            Self::Json => Ok(serde_json::to_writer(Roomy { out, tail }, value)?),
            Self::MessagePack => Ok(rmp_serde::encode::write_named(&mut Roomy { out, tail }, value)?),
        }
    }

    /// How many bytes `encode` would append.
    pub(crate) fn encoded_len<V: Serialize>(&self, value: &V) -> Result<usize, CodecError> {
        let mut length = Length(0);
        match self {
            Self::Custom(codec) => {
                let mut bytes = Vec::new();
                codec.encode(value, &mut bytes)?;
                return Ok(bytes.len());
            }
            #[cfg(feature = "json")]
            Self::Json => serde_json::to_writer(&mut length, value)?,
            Self::MessagePack => rmp_serde::encode::write_named(&mut length, value)?,
        }
        Ok(length.0)
    }

    pub(crate) fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, CodecError> {
        match self {
            Self::Custom(codec) => {
                let mut value = None;
                codec.decode(bytes, &mut |deserializer| {
                    value = Some(erased_serde::deserialize(deserializer)?);
                    Ok(())
                })?;
                value.ok_or_else(|| "the codec did not hand out its deserializer".into())
            }
            #[cfg(feature = "json")]
            Self::Json => Ok(serde_json::from_slice(bytes)?),
            Self::MessagePack => decode_message_pack(bytes),
        }
    }
}

fn decode_message_pack<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, CodecError> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(MAX_DEPTH);
    let value = V::deserialize(&mut deserializer)?;
    // The deserializer does not tell where it stands; that it is at the end shows in what the next marker read meets.
    match End::deserialize(&mut deserializer) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Ok(value)
        }
        Ok(End) | Err(_) => Err("bytes after the end of the document".into()),
    }
}

/// Accepts nothing, and looks at no more than the marker of what it does not accept.
struct End;

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EndVisitor)
    }
}

struct EndVisitor;

impl Visitor<'_> for EndVisitor {
    type Value = End;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the end of the document")
    }
}

/// Grows a buffer so that there is always room for a little more than what was written.
struct Roomy<'a> {
    out: &'a mut Vec<u8>,
    tail: usize,
}

impl io::Write for Roomy<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.reserve(bytes.len() + self.tail);
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts what is written to it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct User {
        age: u8,
        name: String,
    }

    fn alice() -> User {
        User { age: 30, name: "alice".to_owned() }
    }

    fn bytes_of<V: Serialize>(encoding: &Encoding, value: &V) -> Vec<u8> {
        let mut bytes = Vec::new();
        encoding.encode(value, &mut bytes, 16).unwrap();
        assert!(bytes.capacity() >= bytes.len() + 16);
        assert_eq!(bytes.len(), encoding.encoded_len(value).unwrap());
        bytes
    }

    #[test]
    fn message_pack_has_named_fields() {
        let bytes = bytes_of(&Encoding::MessagePack, &alice());
        assert_eq!(bytes, b"\x82\xa3age\x1e\xa4name\xa5alice");
        assert_eq!(Encoding::MessagePack.decode::<User>(&bytes).unwrap(), alice());
    }

    #[test]
    fn bytes_after_the_document_are_an_error() {
        for tail in
            [&b"\x00"[..], b"\xc0", b"\xc1", b"\xa5al", b"\x82", b"\x92\x01", b"\xdb", b"\xc7", b"\xcf", b"\xd4"]
        {
            let mut bytes = bytes_of(&Encoding::MessagePack, &alice());
            bytes.extend_from_slice(tail);
            assert!(Encoding::MessagePack.decode::<User>(&bytes).is_err(), "{tail:?}");
        }
    }

    #[test]
    fn cut_at_every_length_it_is_an_error() {
        let bytes = bytes_of(&Encoding::MessagePack, &alice());
        for len in 0..bytes.len() {
            assert!(Encoding::MessagePack.decode::<User>(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn units_and_empty_values_are_values() {
        assert!(Encoding::MessagePack.decode::<()>(&bytes_of(&Encoding::MessagePack, &())).is_ok());
        let none = bytes_of(&Encoding::MessagePack, &None::<u8>);
        assert_eq!(Encoding::MessagePack.decode::<Option<u8>>(&none).unwrap(), None);
        let empty = bytes_of(&Encoding::MessagePack, &String::new());
        assert_eq!(Encoding::MessagePack.decode::<String>(&empty).unwrap(), "");
    }

    #[test]
    fn u077_a_removed_field_is_never_read_as_another() {
        #[derive(Serialize)]
        struct Old {
            a: u8,
            b: u8,
        }
        #[derive(Deserialize)]
        struct New {
            b: u8,
        }
        let bytes = bytes_of(&Encoding::MessagePack, &Old { a: 1, b: 2 });
        assert_eq!(Encoding::MessagePack.decode::<New>(&bytes).unwrap().b, 2);
    }

    #[test]
    fn hostile_nesting_and_lengths_are_errors() {
        #[derive(Debug, Deserialize)]
        struct Nested(#[allow(dead_code, reason = "only its depth matters")] Vec<Nested>);
        assert!(Encoding::MessagePack.decode::<Nested>(&[0x91; 100_000]).is_err());
        assert!(Encoding::MessagePack.decode::<Vec<u64>>(b"\xdd\xff\xff\xff\xff").is_err());
        assert!(Encoding::MessagePack.decode::<Vec<u8>>(b"\xc6\xff\xff\xff\xff").is_err());
        assert!(Encoding::MessagePack.decode::<BTreeMap<u8, u8>>(b"\xdf\xff\xff\xff\xff").is_err());
    }

    #[cfg(feature = "json")]
    #[test]
    fn json_round_trips_and_refuses_a_tail() {
        let mut bytes = bytes_of(&Encoding::Json, &alice());
        assert_eq!(bytes, br#"{"age":30,"name":"alice"}"#);
        assert_eq!(Encoding::Json.decode::<User>(&bytes).unwrap(), alice());
        bytes.push(b'1');
        assert!(Encoding::Json.decode::<User>(&bytes).is_err());
    }
}
