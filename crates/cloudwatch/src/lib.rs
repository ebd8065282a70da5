//! CloudWatch's arithmetic: statistics over periods, metric math, alarms, and what EBS publishes.
//!
//! ```text
//!  rows of a minute --ebs--> values --+
//!  PutMetricData -----------values ---+--statistic, series--> points --math--> points --alarm--> state
//! ```
//!
//! No I/O and no clock: the time is an argument, in Unix seconds of the wall clock. Points stand at
//! the beginning of their period, as CloudWatch writes them.
//!
//! | file | idea |
//! |---|---|
//! | `metric` | names, dimensions, units |
//! | `statistic` | a set of values, and the statistics of it |
//! | `series` | periods and how they are aligned |
//! | `math` | expressions: text, tree, value |
//! | `query` | GetMetricData: metrics and expressions that refer to each other |
//! | `alarm` | what an alarm is, and its state by its points |
//! | `ebs` | the metrics of AWS/EBS and AWS/EC2 from what a volume did in a minute |
//! | `error` | refusals with CloudWatch's codes |

pub mod alarm;
pub mod ebs;
mod error;
pub mod math;
mod metric;
mod query;
mod series;
mod statistic;

pub use error::{Code, Refusal};
pub use metric::{check_name, Dimension, MetricId, Unit, MAX_DIMENSIONS, MAX_NAME_CHARS, UNITS};
pub use query::{check as check_queries, evaluate, wrong_times, Label, MetricSpec, MetricStat, Query, QueryResult, MAX_DATAPOINTS, MAX_QUERIES};
pub use series::{aggregate, check_period, has_points, rounded_start, Points, Window, HOUR_S, MINUTE_S};
pub use statistic::{Distribution, Statistic};
