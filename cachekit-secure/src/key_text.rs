//! A master key as text: exactly 64 hexadecimal digits. What it refuses, it describes without quoting it.

use zeroize::Zeroizing;

const DIGITS: usize = 64;

/// Why a text is no master key. It tells the length and the first bad position, counted in bytes from 0 without the
/// whitespace around it, and nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It is base64 of something; 64 hexadecimal digits are wanted.
    #[error("the key looks like base64 ({length} characters, the first that is no hexadecimal digit at {position})")]
    Base64 {
        /// How long the text is.
        length: usize,
        /// Where the first bad byte is.
        position: usize,
    },
    /// There is no text, or nothing but whitespace.
    #[error("the key is empty ({length} bytes, all of them whitespace)")]
    Empty {
        /// How long the text is, whitespace included.
        length: usize,
    },
    /// It begins with `0x`.
    #[error("the key begins with `0x`, at position 0 of {length} bytes; leave it out")]
    HexPrefix {
        /// How long the text is.
        length: usize,
    },
    /// There is whitespace between the digits.
    #[error("the key has whitespace inside, at position {position} of {length} bytes")]
    InnerWhitespace {
        /// How long the text is.
        length: usize,
        /// Where the first bad byte is.
        position: usize,
    },
    /// The environment variable is not set.
    #[error("the environment variable of the key is not set")]
    NotSet,
    /// The bytes are no UTF-8.
    #[error("the key is not text: {length} bytes, not UTF-8 from position {position}")]
    NotUtf8 {
        /// How long the value is.
        length: usize,
        /// Where the first bad byte is.
        position: usize,
    },
    /// A character that is no hexadecimal digit.
    #[error("the key has something else than a hexadecimal digit at position {position} of {length} bytes")]
    NotHex {
        /// How long the text is.
        length: usize,
        /// Where the first bad byte is.
        position: usize,
    },
    /// An odd number of digits: one is missing, or there is one too many.
    #[error(
        "the key has {length} hexadecimal digits, an odd number, instead of 64; it goes wrong at position {position}"
    )]
    OddLength {
        /// How long the text is.
        length: usize,
        /// Where the first missing or superfluous digit is.
        position: usize,
    },
    /// It is in quotation marks.
    #[error("the key is in quotation marks: one at position {position} of {length} bytes")]
    Quoted {
        /// How long the text is, quotation marks included.
        length: usize,
        /// Where the first bad byte is.
        position: usize,
    },
    /// The environment variable is set to the empty text.
    #[error("the environment variable of the key is set, but empty")]
    SetButEmpty,
    /// Every byte of the key is the same; nobody drew that at random.
    #[error("all 32 bytes of the key are the same ({length} digits); make one with `openssl rand -hex 32`")]
    Trivial {
        /// How long the text is.
        length: usize,
    },
    /// An even number of digits other than 64.
    #[error("the key has {length} hexadecimal digits instead of 64; it goes wrong at position {position}")]
    WrongLength {
        /// How long the text is.
        length: usize,
        /// Where the first missing or superfluous digit is.
        position: usize,
    },
}

/// The 32 bytes that the text stands for, and whether there was whitespace around it.
pub(crate) fn parse(text: &str) -> Result<(Zeroizing<[u8; 32]>, bool), KeyError> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(KeyError::Empty { length: text.len() });
    }
    let bytes = trimmed.as_bytes();
    if let Some(position) = bytes.iter().position(|byte| !byte.is_ascii_hexdigit()) {
        return Err(not_hex(trimmed, position));
    }
    let length = bytes.len();
    if length != DIGITS {
        let position = length.min(DIGITS);
        return Err(if length % 2 == 1 {
            KeyError::OddLength { length, position }
        } else {
            KeyError::WrongLength { length, position }
        });
    }
    let mut key = Zeroizing::new([0; 32]);
    for (byte, digits) in key.iter_mut().zip(bytes.chunks_exact(2)) {
        *byte = (digit(digits[0]) << 4) | digit(digits[1]);
    }
    if key.iter().all(|byte| *byte == key[0]) {
        return Err(KeyError::Trivial { length });
    }
    Ok((key, trimmed.len() != text.len()))
}

/// `byte` is an ASCII hexadecimal digit.
fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => (byte | 0x20) - b'a' + 10,
    }
}

/// The most helpful name for what stands there instead of digits only.
fn not_hex(text: &str, position: usize) -> KeyError {
    let length = text.len();
    if let Some(position) = text.find(['"', '\'', '`']) {
        return KeyError::Quoted { length, position };
    }
    if text.starts_with("0x") || text.starts_with("0X") {
        return KeyError::HexPrefix { length };
    }
    if let Some(position) = text.find(char::is_whitespace) {
        return KeyError::InnerWhitespace { length, position };
    }
    // 32 bytes are 43 characters of it, and a padding character.
    let body = text.trim_end_matches('=');
    let in_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
    if body.len() == 43 && body.bytes().all(in_base64) {
        return KeyError::Base64 { length, position };
    }
    KeyError::NotHex { length, position }
}
