//! Every call is read by its name, with the arguments that it has and no others.

use headrace_protocol::{Call, CALLS, SECTIONS};
use serde_json::{json, Value};

#[test]
fn every_call_is_read_by_its_name_and_refuses_what_it_does_not_know() {
    for entry in CALLS {
        let required = entry.arguments.fields.iter().filter(|field| !field.rust_type.starts_with("Option"));
        let args: serde_json::Map<String, Value> = required
            .map(|field| {
                let value = match field.rust_type {
                    "String" => json!("db"),
                    "Vec<String>" => json!(["db"]),
                    "bool" => json!(true),
                    "Value" => json!({"format": "x"}),
                    _ => json!(1),
                };
                (field.name.to_string(), value)
            })
            .collect();
        let call = Call::read(entry.name, Value::Object(args.clone())).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let written = serde_json::to_value(&call).expect("JSON");
        assert_eq!(written["call"], entry.name);
        let mut unknown = args;
        unknown.insert("nonsense".to_string(), json!(1));
        let error = Call::read(entry.name, Value::Object(unknown)).expect_err("an unknown argument");
        assert!(error.to_string().contains("nonsense"), "{error}");
        assert!(SECTIONS.iter().any(|(section, _)| *section == entry.section), "{}", entry.section);
    }
    assert!(Call::read("volume.nonsense", json!({})).is_err());
}

#[test]
fn left_out_and_null_are_the_same() {
    let short = Call::read("volume.detach", json!({"volume": "db"})).expect("read");
    let long = Call::read("volume.detach", json!({"volume": "db", "force": null})).expect("read");
    assert_eq!(short, long);
}
