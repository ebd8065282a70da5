//! Messages, each with two forms from one definition: a type of Rust, and a table of its fields
//! from which the Python client and the reference page are generated.

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Key in JSON.
    pub name: &'static str,
    /// Type in Rust, as written.
    pub rust_type: &'static str,
    /// Meaning: the doc comment of the field, whose lines begin with a space.
    pub doc: &'static str,
    /// The value of an argument that is left out, in words; "" where there is none to name.
    pub default: &'static str,
    /// True if the key is left out when it has no value.
    pub only_with_value: bool,
}

/// A message: the arguments of a call, or its answer.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The type's name.
    pub name: &'static str,
    /// Description: the doc comment of the type.
    pub doc: &'static str,
    /// Fields in their order.
    pub fields: &'static [Field],
    /// The messages that its fields are made of.
    pub parts: &'static [&'static Message],
}

/// A type that is a message.
pub trait Described {
    /// Table of the message.
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
