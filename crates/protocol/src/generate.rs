//! The Python client and the reference page, made from the tables of calls and messages.

use crate::calls::{CallEntry, CALLS, SECTIONS};
use crate::message::{Field, Message};
use headrace_control::ErrorKind;
use std::fmt::Write;

/// The line of the reference page from which on it is generated.
pub const MARKER: &str = "<!-- Generated from crates/protocol by `make generate`: edit there. -->";

/// Columns of prose in Python, as everywhere in the project.
const PROSE_COLUMNS: usize = 100;

/// Words that Python reserves and a field may have as its name.
const PYTHON_KEYWORDS: [&str; 1] = ["from"];

const PYTHON_HEAD: &str = r#""""Every call of headraced as a method, and what it answers.

Generated from crates/protocol by `make generate`: edit there. Answers are plain dicts,
as JSON has them. Units are in the names; times are text in UTC, ISO 8601.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from typing import Any, NotRequired, TypedDict

# Attach measures the machine's path first; detach, delete and down write back and free what a
# volume holds. Three minutes are a guess at the slowest disk.
LONG_CALL_S = 180.0


def _given(names: dict[str, object]) -> dict[str, Any]:
    """Returns the arguments of a method, from the names in it."""
    return {name: value for name, value in names.items() if name != "self"}
"#;

const PYTHON_CLASS: &str = r#"

class Calls(ABC):
    """The calls of the socket protocol (docs/reference/lab-protocol.md).

    A volume is named by its id or its unique name. An argument that is None is left out.
    """

    timeout_s: float  # the longest wait for an answer

    @abstractmethod
    def call(
        self,
        name: str,
        timeout_s: float | None = None,
        /,
        *,
        token: str | None = None,
        dry_run: bool = False,
        **args: Any,
    ) -> Any:
        """Makes a call and returns its answer.

        timeout_s: another wait for this one.
        token: done once, however often it is called with this token and the same arguments.
        dry_run: only decided; always refused, as `dry-run` where it would have been done.
        """
"#;

/// Breaks prose of the Python client into lines of at most `columns` bytes, each after `indent`,
/// which counts; a longer word has a line of its own.
fn wrapped(text: &str, indent: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

/// Splits a doc comment into paragraphs; the lines of a table stay lines.
fn paragraphs(doc: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in doc.lines().map(str::trim) {
        let last = paragraphs.last_mut().expect("there is one");
        match line {
            "" => paragraphs.push(String::new()),
            row if row.starts_with('|') => {
                last.push_str(row);
                last.push('\n');
            }
            words => {
                last.push_str(words);
                last.push(' ');
            }
        }
    }
    paragraphs.iter().map(|text| text.trim().to_string()).filter(|text| !text.is_empty()).collect()
}

fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the name of a message for users: without the ending by which Rust tells it from the
/// lab's own.
fn public_name(name: &str) -> &str {
    name.strip_suffix("View").unwrap_or(name)
}

/// Returns the inside of `OUTER<...>`.
fn inside<'a>(rust: &'a str, outer: &str) -> Option<&'a str> {
    rust.strip_prefix(outer)?.strip_prefix('<')?.strip_suffix('>')
}

/// Turns a type of Rust into a type of Python.
fn python_type(rust: &str) -> String {
    let rust = rust.replace(' ', "");
    if let Some(inner) = inside(&rust, "Option") {
        return format!("{} | None", python_type(inner));
    }
    if let Some(inner) = inside(&rust, "Vec") {
        return format!("list[{}]", python_type(inner));
    }
    if let Some(inner) = inside(&rust, "BTreeMap") {
        let (key, value) = inner.split_once(',').expect("a map has a key and a value");
        return format!("dict[{}, {}]", python_type(key), python_type(value));
    }
    match rust.as_str() {
        "String" => "str".into(),
        "PathBuf" => "str | PathLike[str]".into(),
        "bool" => "bool".into(),
        "f64" => "float".into(),
        "u8" | "u32" | "i64" | "u64" | "usize" => "int".into(),
        "Value" => "Any".into(),
        other => public_name(other).into(),
    }
}

/// Turns a type of Rust into words of JSON.
fn json_type(rust: &str) -> String {
    let rust = rust.replace(' ', "");
    if let Some(inner) = inside(&rust, "Option") {
        return json_type(inner);
    }
    if let Some(inner) = inside(&rust, "Vec") {
        return format!("list of {}", json_type(inner));
    }
    if let Some((_, value)) = inside(&rust, "BTreeMap").and_then(|inner| inner.split_once(',')) {
        return format!("object of {}", json_type(value));
    }
    match rust.as_str() {
        "String" | "PathBuf" => "text".into(),
        "bool" => "true or false".into(),
        "f64" => "number".into(),
        "u8" | "u32" | "i64" | "u64" | "usize" => "whole number".into(),
        "Value" => "any".into(),
        other => format!("[{0}](#{1})", public_name(other), public_name(other).to_lowercase()),
    }
}

fn key(field: &Field) -> &'static str {
    field.name.trim_start_matches("r#")
}

/// Returns the messages that are shown as types of their own: parts before the wholes they are in.
fn shown_types() -> Vec<&'static Message> {
    fn add(message: &'static Message, types: &mut Vec<&'static Message>) {
        message.parts.iter().for_each(|part| add(part, types));
        if !message.fields.is_empty() && !types.iter().any(|other| other.name == message.name) {
            types.push(message);
        }
    }
    let mut types = Vec::new();
    for entry in CALLS {
        match entry.returns {
            "" => add(entry.answer, &mut types),
            // The method returns a part of the answer.
            _ => entry.answer.parts.iter().for_each(|part| add(part, &mut types)),
        }
    }
    types
}

/// Writes `headrace/lab/calls.py`.
pub fn python() -> String {
    let mut out = PYTHON_HEAD.to_string();
    for message in shown_types() {
        python_class(&mut out, message);
    }
    out.push_str(PYTHON_CLASS);
    for entry in CALLS {
        python_method(&mut out, entry);
    }
    out
}

/// Appends the class of a message, with a dictionary as its base for the fields that Python
/// reserves.
fn python_class(out: &mut String, message: &Message) {
    let name = public_name(message.name);
    let (reserved, usual): (Vec<&Field>, Vec<&Field>) = message.fields.iter().partition(|field| PYTHON_KEYWORDS.contains(&key(field)));
    let mut base = "TypedDict".to_string();
    if !reserved.is_empty() {
        base = format!("_{name}Keywords");
        let fields: Vec<String> = reserved.iter().map(|field| format!("\"{}\": {}", key(field), python_type(field.rust_type))).collect();
        let _ = write!(
            out,
            "\n\n# A word that Python reserves cannot be written as a field of a class.\n{base} = TypedDict(\"{base}\", {{{}}})\n",
            fields.join(", ")
        );
    }
    let _ = write!(out, "\n\nclass {name}({base}):\n");
    docstring(out, "    ", &[one_line(message.doc)]);
    out.push('\n');
    for field in usual {
        let written = python_type(field.rust_type);
        let written = match (field.only_with_value, written.strip_suffix(" | None")) {
            (true, Some(value)) => format!("NotRequired[{value}]"),
            _ => written,
        };
        let (line, comment) = (format!("    {}: {written}", key(field)), one_line(field.doc));
        let _ = match line.len() + 4 + comment.len() <= PROSE_COLUMNS {
            true => writeln!(out, "{line}  # {comment}"),
            false => writeln!(out, "{}\n{line}", wrapped(&comment, "    # ", PROSE_COLUMNS)),
        };
    }
}

/// Writes a docstring of paragraphs; the first stands behind the quotes.
fn docstring(out: &mut String, indent: &str, paragraphs: &[String]) {
    let mut body = String::new();
    for (index, paragraph) in paragraphs.iter().enumerate() {
        let lines = match index {
            0 => wrapped(&format!("\"\"\"{paragraph}"), indent, PROSE_COLUMNS - 3),
            _ => paragraph.lines().map(|line| hanging(line, indent)).collect::<Vec<_>>().join("\n"),
        };
        body.push_str(if index == 0 { "" } else { "\n\n" });
        body.push_str(&lines);
    }
    if body.contains('\n') {
        body.push('\n');
        body.push_str(indent);
    }
    let _ = writeln!(out, "{body}\"\"\"");
}

/// Writes a line of arguments, its continuation further in.
fn hanging(line: &str, indent: &str) -> String {
    let text = wrapped(line, "", PROSE_COLUMNS - indent.len() - 4);
    text.lines().enumerate().map(|(index, part)| format!("{indent}{}{part}", if index == 0 { "" } else { "    " })).collect::<Vec<_>>().join("\n")
}

fn argument_line(field: &Field) -> String {
    let default = if field.default.is_empty() { String::new() } else { format!(" Default: {}.", field.default) };
    format!("{}: {}{default}", key(field), one_line(field.doc))
}

/// A call with more arguments than this takes only its first ones by place, the others by name:
/// they are mixed up too easily.
const MOST_BY_PLACE: usize = 7;
const BY_PLACE: usize = 2;

/// Appends the method of a call.
fn python_method(out: &mut String, entry: &CallEntry) {
    let fields = entry.arguments.fields;
    let answer = match entry.answer.fields {
        [] => "dict[str, object]".to_string(),
        _ if entry.returns.is_empty() => public_name(entry.answer.name).to_string(),
        fields => fields.iter().find(|field| key(field) == entry.returns).map(|field| python_type(field.rust_type)).expect("a key of the answer"),
    };
    let parameters = fields.iter().map(|field| {
        // The caller's argument is sent on unchanged: it may be anything that JSON has.
        let written = python_type(field.rust_type).replace("Any", "object");
        match field.default {
            "true" => format!("{}: bool = True", key(field)),
            "false" => format!("{}: bool = False", key(field)),
            "" => format!("{}: {written}", key(field)),
            _ => format!("{}: {written} = None", key(field)),
        }
    });
    let mut parameters: Vec<String> = std::iter::once("self".to_string()).chain(parameters).collect();
    if fields.len() > MOST_BY_PLACE {
        parameters.insert(1 + BY_PLACE, "*".to_string());
    }
    let head = listed(&format!("    def {}", entry.method), &parameters, &format!(" -> {answer}:"));
    let _ = write!(out, "\n{head}\n");
    let mut text = paragraphs(entry.doc);
    if text.iter().any(|paragraph| paragraph.starts_with('|')) {
        text.retain(|paragraph| !paragraph.starts_with('|'));
        text.push(format!("The table is in docs/reference/lab-protocol.md, {}.", entry.name));
    }
    // The class says once how a volume is named.
    let explained: Vec<&Field> = fields.iter().filter(|field| key(field) != "volume" || !field.default.is_empty()).collect();
    if !explained.is_empty() {
        text.push(explained.into_iter().map(argument_line).collect::<Vec<_>>().join("\n"));
    }
    docstring(out, "        ", &text);
    let mut words = vec![format!("\"{}\"", entry.name)];
    words.extend(entry.long.then(|| "max(self.timeout_s, LONG_CALL_S)".to_string()));
    let named: Vec<String> = fields.iter().map(|field| format!("{0}={0}", key(field))).collect();
    let key = if entry.returns.is_empty() { String::new() } else { format!("[\"{}\"]", entry.returns) };
    let line = |arguments: &[String]| format!("        return self.call({}){key}", [&words[..], arguments].concat().join(", "));
    let whole = line(&named);
    let _ = writeln!(out, "{}", if whole.len() <= PROSE_COLUMNS { whole } else { line(&["**_given(locals())".to_string()]) });
}

/// Writes `before(a, b)after` in a line where it fits, else one item a line: as ruff leaves it.
fn listed(before: &str, items: &[String], after: &str) -> String {
    let line = format!("{before}({}){after}", items.join(", "));
    if line.len() <= PROSE_COLUMNS {
        return line;
    }
    let indent = " ".repeat(before.len() - before.trim_start().len());
    let items: String = items.iter().map(|item| format!("{indent}    {item},\n")).collect();
    format!("{before}(\n{items}{indent}){after}")
}

/// Writes the reference page from [`MARKER`] on.
pub fn reference() -> String {
    let mut out = format!("{MARKER}\n\n");
    out.push_str("## Errors\n\n");
    out.push_str(
        "Each has `kind`, `value`, `rule` (the rule that the value breaks), `source` (the document with the rule) and `hint` (advice); \
         `code` and `message` say the same as the EC2 API does.\n\n",
    );
    out.push_str("| kind | means | EC2 error code | exit code of `headrace` |\n|---|---|---|---|\n");
    for kind in ErrorKind::ALL {
        let code = if kind == ErrorKind::Unavailable { 3 } else { 2 };
        let _ = writeln!(out, "| `{}` | {} | {} | {code} |", kind.as_str(), kind.meaning(), kind.ec2_code());
    }
    out.push_str("\nNo answer at all (no daemon, or it ended in the middle) is exit code 3 too.\n");
    for (section, introduction) in SECTIONS {
        let _ = write!(out, "\n## {section}\n");
        if !introduction.is_empty() {
            let _ = write!(out, "\n{introduction}\n");
        }
        CALLS.iter().filter(|entry| entry.section == section).for_each(|entry| reference_call(&mut out, entry));
    }
    out.push_str("\n## Answers\n\nA key whose meaning does not say otherwise always has a value. Later versions may add keys.\n");
    for message in shown_types() {
        let _ = write!(out, "\n### {}\n\n{}\n\n| key | | meaning |\n|---|---|---|\n", public_name(message.name), one_line(message.doc));
        for field in message.fields {
            let _ = writeln!(out, "| `{}` | {} | {} |", key(field), json_type(field.rust_type), one_line(field.doc));
        }
    }
    out
}

/// Appends the section of a call to the reference page.
fn reference_call(out: &mut String, entry: &CallEntry) {
    let _ = write!(out, "\n### {}\n", entry.name);
    for paragraph in paragraphs(entry.doc) {
        let _ = write!(out, "\n{paragraph}\n");
    }
    if !entry.arguments.fields.is_empty() {
        out.push_str("\n| argument | | meaning | if left out |\n|---|---|---|---|\n");
        for field in entry.arguments.fields {
            let default = if field.default.is_empty() { "an error" } else { field.default };
            let _ = writeln!(out, "| `{}` | {} | {} | {default} |", key(field), json_type(field.rust_type), one_line(field.doc));
        }
    }
    let answer = match (entry.answer.fields, entry.returns) {
        ([], _) => "`{}`".to_string(),
        (_, "") => format!("[{0}](#{1})", public_name(entry.answer.name), public_name(entry.answer.name).to_lowercase()),
        (fields, _) => {
            let keys: Vec<String> = fields.iter().map(|field| format!("`{}`: {}", key(field), json_type(field.rust_type))).collect();
            format!("{{{}}}", keys.join(", "))
        }
    };
    let _ = write!(out, "\nAnswer: {answer}.\n");
}
