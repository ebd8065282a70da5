//! Arguments and answers of the calls about CloudWatch and events. Structures of AWS's API (a
//! query, a datum, an alarm) stand here as one value with the API's names in it.

use crate::message::message;
use serde_json::Value;
use std::collections::BTreeMap;

message! {
    /// Values of metrics of your own.
    #[serde(deny_unknown_fields)]
    pub struct PutMetrics {
        /// Namespace, not one that begins with AWS/.
        pub namespace: String;
        /// A list of MetricDatum as CloudWatch's API names its members; `Timestamp` in Unix
        /// seconds.
        pub data: Value;
    }
}

message! {
    /// Filter of metrics.
    #[serde(deny_unknown_fields)]
    pub struct MetricFilter {
        /// Namespace.
        pub namespace: Option<String> = "all";
        /// Name.
        pub name: Option<String> = "all";
        /// Dimensions of the metrics: a list of `{"Name", "Value"}`; without a value, any.
        pub dimensions: Option<Value> = "any";
        /// True for metrics with a point in the last three hours only.
        pub recently_active: Option<bool> = "false";
        /// Token of an earlier answer, with which this one goes on.
        pub next_token: Option<String> = "from the first on";
    }
}

message! {
    /// Statistics of a metric.
    #[serde(deny_unknown_fields)]
    pub struct StatisticsRequest {
        /// Namespace.
        pub namespace: String;
        /// Name.
        pub name: String;
        /// First time, Unix seconds.
        pub start_s: f64;
        /// End, Unix seconds: the first time that is left out.
        pub end_s: f64;
        /// Length of a period, s.
        pub period_s: u32;
        /// Dimensions of the metric: a list of `{"Name", "Value"}`.
        pub dimensions: Option<Value> = "none";
        /// SampleCount, Average, Sum, Minimum or Maximum.
        pub statistics: Option<Vec<String>> = "none";
        /// Percentiles like p99.9, and trimmed means.
        pub extended: Option<Vec<String>> = "none";
        /// Unit of the values.
        pub unit: Option<String> = "all";
    }
}

message! {
    /// Metrics and expressions.
    #[serde(deny_unknown_fields)]
    pub struct DataRequest {
        /// A list of MetricDataQuery as CloudWatch's API names its members.
        pub queries: Value;
        /// First time, Unix seconds.
        pub start_s: f64;
        /// End, Unix seconds: the first time that is left out.
        pub end_s: f64;
        /// `TimestampDescending` or `TimestampAscending`.
        pub scan_by: Option<String> = "TimestampDescending";
        /// Most points of an answer.
        pub max_datapoints: Option<u32> = "100800";
        /// Token of an earlier answer, with which this one goes on.
        pub next_token: Option<String> = "from the first on";
    }
}

message! {
    /// An alarm.
    #[serde(deny_unknown_fields)]
    pub struct PutAlarm {
        /// The members of PutMetricAlarm, but for tags.
        pub alarm: Value;
        /// Tags; they count for a new alarm only.
        pub tags: Option<BTreeMap<String, String>> = "none";
    }
}

message! {
    /// Filter of alarms.
    #[serde(deny_unknown_fields)]
    pub struct AlarmFilter {
        /// Names.
        pub names: Option<Vec<String>> = "all";
        /// Beginning of the names.
        pub prefix: Option<String> = "all";
        /// `OK`, `ALARM` or `INSUFFICIENT_DATA`.
        pub state: Option<String> = "all";
        /// Beginning of one of their actions.
        pub action_prefix: Option<String> = "all";
        /// The members of DescribeAlarmsForMetric, for alarms on that metric only.
        pub metric: Option<Value> = "all";
        /// Most alarms of an answer, 1 to 100.
        pub most: Option<u32> = "50";
        /// Token of an earlier answer, with which this one goes on.
        pub next_token: Option<String> = "from the first on";
    }
}

message! {
    /// Alarms by name.
    #[serde(deny_unknown_fields)]
    pub struct AlarmNames {
        /// Names, 1 to 100.
        pub names: Vec<String>;
    }
}

message! {
    /// A state for an alarm.
    #[serde(deny_unknown_fields)]
    pub struct AlarmState {
        /// Name.
        pub name: String;
        /// `OK`, `ALARM` or `INSUFFICIENT_DATA`.
        pub state: String;
        /// Reason of the state.
        pub reason: String;
        /// Reason of the state, as JSON.
        pub reason_data: Option<String> = "none";
    }
}

message! {
    /// Filter of history.
    #[serde(deny_unknown_fields)]
    pub struct HistoryFilter {
        /// Name of an alarm.
        pub name: Option<String> = "all";
        /// `ConfigurationUpdate`, `StateUpdate` or `Action`.
        pub kind: Option<String> = "all";
        /// First time, Unix seconds.
        pub start_s: Option<f64> = "all";
        /// End, Unix seconds: the first time that is left out.
        pub end_s: Option<f64> = "all";
        /// True for the oldest first.
        pub oldest_first: Option<bool> = "false";
        /// Most items of an answer, 1 to 100.
        pub most: Option<u32> = "100";
        /// Token of an earlier answer, with which this one goes on.
        pub next_token: Option<String> = "from the first on";
    }
}

message! {
    /// An alarm by its ARN.
    #[serde(deny_unknown_fields)]
    pub struct AlarmArn {
        /// ARN.
        pub arn: String;
    }
}

message! {
    /// Tags of an alarm.
    #[serde(deny_unknown_fields)]
    pub struct AlarmTagRequest {
        /// ARN.
        pub arn: String;
        /// Tags to add or overwrite, after removing.
        pub set: Option<BTreeMap<String, String>> = "none";
        /// Keys to remove.
        pub remove: Option<Vec<String>> = "none";
    }
}

message! {
    /// Events after a cursor.
    #[serde(deny_unknown_fields)]
    pub struct EventsRequest {
        /// Cursor of an earlier answer; `now` for events to come.
        pub cursor: Option<String> = "the oldest event that is kept";
        /// Most events of an answer, 1 to 1,000.
        pub most: Option<u32> = "1000";
    }
}

message! {
    /// A volume or one of its members.
    #[serde(deny_unknown_fields)]
    pub struct StatisticsPageRequest {
        /// Id or unique name.
        pub volume: String;
        /// Index of a member.
        pub member: Option<u32> = "the volume as a whole";
    }
}

message! {
    /// The name of a metric.
    pub struct MetricName {
        /// Namespace.
        pub namespace: String;
        /// Name.
        pub name: String;
        /// Dimensions by name.
        pub dimensions: BTreeMap<String, String>;
    }
}

message! {
    /// Metrics, by namespace, name and dimensions.
    pub struct MetricNames with MetricName {
        /// Metrics.
        pub metrics: Vec<MetricName>;
        /// Token for the rest; null without any.
        pub next_token: Option<String>;
    }
}

message! {
    /// A period with values.
    pub struct Datapoint {
        /// Beginning of the period, Unix seconds.
        pub t_s: i64;
        /// Unit of its values.
        pub unit: String;
        /// Statistics by name.
        pub values: Value;
    }
}

message! {
    /// Statistics of a metric.
    pub struct MetricStatistics with Datapoint {
        /// The name of the metric.
        pub label: String;
        /// Periods with values, oldest first.
        pub datapoints: Vec<Datapoint>;
    }
}

message! {
    /// Points of a query.
    pub struct MetricResult {
        /// Id of the query. An expression that gives several series has a result for each.
        pub id: String;
        /// Label.
        pub label: String;
        /// `Complete`, or `PartialData` where the next answer goes on with it.
        pub status: String;
        /// Beginnings of the periods, Unix seconds.
        pub times_s: Vec<i64>;
        /// Values of the periods.
        pub values: Vec<f64>;
    }
}

message! {
    /// Points of metrics and expressions.
    pub struct MetricData with MetricResult {
        /// Results in the order of the queries.
        pub results: Vec<MetricResult>;
        /// Token for the rest; null without any.
        pub next_token: Option<String>;
    }
}

message! {
    /// An alarm. Times are those of the wall clock, in Unix seconds.
    pub struct AlarmView {
        /// ARN.
        pub arn: String;
        /// The members of PutMetricAlarm, but for tags.
        pub alarm: Value;
        /// Tags.
        pub tags: BTreeMap<String, String>;
        /// Time of the last configuration.
        pub configured_s: f64;
        /// `OK`, `ALARM` or `INSUFFICIENT_DATA`.
        pub state: String;
        /// Reason of the state.
        pub reason: String;
        /// Reason of the state, as JSON; null if it is not known.
        pub reason_data: Option<String>;
        /// Time at which the state was set last.
        pub state_s: f64;
        /// Time at which the state became another.
        pub transitioned_s: f64;
    }
}

message! {
    /// Alarms by name.
    pub struct AlarmList with AlarmView {
        /// Alarms.
        pub alarms: Vec<AlarmView>;
        /// Token for the rest; null without any.
        pub next_token: Option<String>;
    }
}

message! {
    /// An item of the history of an alarm.
    pub struct AlarmHistoryItem {
        /// Name of the alarm.
        pub name: String;
        /// Time, Unix seconds of the wall clock.
        pub t_s: f64;
        /// `ConfigurationUpdate`, `StateUpdate` or `Action`.
        pub kind: String;
        /// Sentence about the item.
        pub summary: String;
        /// Data about the item, as JSON.
        pub data: String;
    }
}

message! {
    /// History of alarms.
    pub struct AlarmHistory with AlarmHistoryItem {
        /// Items.
        pub items: Vec<AlarmHistoryItem>;
        /// Token for the rest; null without any.
        pub next_token: Option<String>;
    }
}

message! {
    /// Tags.
    pub struct AlarmTags {
        /// Tags.
        pub tags: BTreeMap<String, String>;
    }
}

message! {
    /// Events of the lab.
    pub struct LabEvents {
        /// Events as EventBridge writes them, oldest first.
        pub events: Vec<Value>;
        /// Cursor for the events that follow.
        pub cursor: String;
        /// Number of events after the cursor that were no longer kept.
        pub lost: u64;
    }
}

message! {
    /// The NVMe statistics page.
    pub struct StatisticsPage {
        /// The page's 4,096 bytes in hexadecimal.
        pub page_hex: String;
    }
}
