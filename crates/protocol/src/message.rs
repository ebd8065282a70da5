//! How a message is written down once and known twice: as a type of Rust, and as a table of its
//! fields from which the Python client and the reference page are generated.

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its key in JSON.
    pub name: &'static str,
    /// Its type in Rust, as written.
    pub rust_type: &'static str,
    /// What it means: its doc comment, whose lines begin with a space.
    pub doc: &'static str,
    /// The value of an argument that is left out, in words; "" where there is none to name.
    pub default: &'static str,
    /// Whether the key is there only when it has a value.
    pub only_with_value: bool,
}

/// A message: the arguments of a call, or what it answers.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The type's name.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Its fields, in order.
    pub fields: &'static [Field],
    /// The messages that its fields are made of.
    pub parts: &'static [&'static Message],
}

/// A type that is a message.
pub trait Described {
    /// Its table.
    const MESSAGE: Message;
}

/// A struct that is a message. `= "..."` after a field's type is its default in words; `unless`
/// names the test by which the key is left out. `with` names the messages its fields hold.
macro_rules! message {
    (
        $(#[doc = $doc:literal])+
        $(#[serde($serde:meta)])?
        pub struct $name:ident $(with $($part:ident)+)? {
            $( $(#[doc = $field_doc:literal])+ pub $field:ident: $type:ty $(= $default:literal)? $(, unless $skip:literal)?; )*
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[serde($serde)])?
        pub struct $name {
            $( $(#[doc = $field_doc])+ $(#[serde(skip_serializing_if = $skip)])? pub $field: $type, )*
        }

        impl $crate::message::Described for $name {
            const MESSAGE: $crate::message::Message = $crate::message::Message {
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                fields: &[$( $crate::message::Field {
                    name: stringify!($field),
                    rust_type: stringify!($type),
                    doc: concat!($($field_doc, "\n"),+),
                    default: concat!($($default)?),
                    only_with_value: !concat!($($skip)?).is_empty(),
                } ),*],
                parts: &[$($(&<$part as $crate::message::Described>::MESSAGE),+)?],
            };
        }
    };
}
pub(crate) use message;
