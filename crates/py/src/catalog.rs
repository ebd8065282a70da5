//! The catalog: volume types, instances, prices, storage notation.

use crate::convert::{catalog_error, date, to_python};
use headrace_catalog::{Catalog, CostItem, RegionPrices, StorageSpec, VolumeType};
use pyo3::prelude::*;

/// Reads storage notation; the error is the exception of its refusal.
pub(crate) fn read_storage(storage: &str) -> PyResult<StorageSpec> {
    storage.parse().map_err(|error| catalog_error(&error))
}

/// Returns the era of every volume type that is valid on a day (or all eras), as dicts.
#[pyfunction]
#[pyo3(signature = (as_of=None, all_eras=false))]
fn volume_eras<'py>(py: Python<'py>, as_of: Option<&str>, all_eras: bool) -> PyResult<Bound<'py, PyAny>> {
    let catalog = Catalog::embedded();
    if all_eras {
        return to_python(py, &VolumeType::ALL.iter().flat_map(|&volume_type| catalog.volume_eras(volume_type)).collect::<Vec<_>>());
    }
    let day = date(as_of)?;
    let eras: Vec<_> = VolumeType::ALL.iter().filter_map(|&volume_type| catalog.volume_era(volume_type, day).ok()).collect();
    to_python(py, &eras)
}

/// Returns the instances on a day with their EBS limits, as dicts.
#[pyfunction]
#[pyo3(signature = (as_of=None))]
fn instances<'py>(py: Python<'py>, as_of: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &Catalog::embedded().instances(date(as_of)?))
}

/// Returns an instance on a day with its EBS limits, as a dict.
#[pyfunction]
#[pyo3(signature = (name, as_of=None))]
fn instance<'py>(py: Python<'py>, name: &str, as_of: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let limits = Catalog::embedded().instance(name, date(as_of)?).map_err(|error| catalog_error(&error))?;
    to_python(py, &limits)
}

/// Returns the speed of a core of a processor at a clock, GHz x work per clock.
#[pyfunction]
fn core_speed(processor: &str, clock_ghz: f64) -> PyResult<f64> {
    Catalog::embedded().core_speed(processor, clock_ghz).map_err(|error| catalog_error(&error))
}

/// Returns the clock of a core of `processor` alone at work over `clock_ghz`, which all cores hold.
#[pyfunction]
fn alone_faster(processor: &str, clock_ghz: f64) -> PyResult<f64> {
    Catalog::embedded().alone_faster(processor, clock_ghz).map_err(|error| catalog_error(&error))
}

/// Returns the USD an hour of Linux on demand with source and date; None when no price is known.
#[pyfunction]
#[pyo3(signature = (name, region, as_of=None))]
fn instance_price<'py>(py: Python<'py>, name: &str, region: &str, as_of: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &Catalog::embedded().instance_price(name, region, date(as_of)?))
}

/// Returns the factor of a commitment on the hour of an instance type, with source and note.
#[pyfunction]
#[pyo3(signature = (commitment, instance_type, as_of=None))]
fn commitment<'py>(py: Python<'py>, commitment: &str, instance_type: &str, as_of: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, Catalog::embedded().commitment(commitment, instance_type, date(as_of)?).map_err(|error| catalog_error(&error))?)
}

/// Raises where storages together are more volumes than an instance takes in addition to its root
/// volume.
#[pyfunction]
#[pyo3(signature = (storages, instance, as_of=None))]
fn check_attachments(storages: Vec<String>, instance: &str, as_of: Option<&str>) -> PyResult<()> {
    let catalog = Catalog::embedded();
    let day = date(as_of)?;
    let checked = (|| {
        let host = catalog.instance(instance, day)?;
        let storages = storages.iter().map(|storage| storage.parse()).collect::<Result<Vec<StorageSpec>, _>>()?;
        catalog.check_attachments(&storages.iter().collect::<Vec<_>>(), &host)
    })();
    checked.map_err(|error| catalog_error(&error))
}

/// Returns the EBS prices of a region on a day.
#[pyfunction]
#[pyo3(signature = (region, as_of=None))]
fn volume_prices<'py>(py: Python<'py>, region: &str, as_of: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let prices = Catalog::embedded().volume_prices(region, date(as_of)?).map_err(|error| catalog_error(&error))?;
    to_python(py, &prices)
}

/// Returns the first and the last day on which the prices of a region in force on a day were last
/// seen: `volumes`, `instances`.
#[pyfunction]
#[pyo3(signature = (region, as_of=None))]
fn prices_seen<'py>(py: Python<'py>, region: &str, as_of: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &Catalog::embedded().prices_seen(region, date(as_of)?).map_err(|error| catalog_error(&error))?)
}

/// Returns the code of a region with prices, as the catalog writes it.
#[pyfunction]
fn region_code(region: &str) -> PyResult<&'static str> {
    Catalog::embedded().region(region).map(|(code, _)| code).map_err(|error| catalog_error(&error))
}

/// Returns the codes of the regions with prices of EBS volumes.
#[pyfunction]
fn regions() -> Vec<String> {
    Catalog::embedded().priced_regions().into_iter().map(str::to_string).collect()
}

/// Returns the newest day that a source of the catalog speaks for, YYYY-MM-DD.
#[pyfunction]
fn newest_date() -> String {
    Catalog::embedded().newest_date().to_string()
}

/// Returns the sources of all numbers.
#[pyfunction]
fn sources(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &Catalog::embedded().sources())
}

/// Returns storage notation taken apart, in its normal form (`text`), and with its usable GiB.
#[pyfunction]
fn parse_storage<'py>(py: Python<'py>, storage: &str) -> PyResult<Bound<'py, PyAny>> {
    let spec = read_storage(storage)?;
    let dict = to_python(py, &spec)?;
    dict.set_item("text", spec.to_string())?;
    dict.set_item("usable_gib", spec.usable_gib())?;
    Ok(dict)
}

/// Returns the limits of each member of a storage on a day.
#[pyfunction]
#[pyo3(signature = (storage, as_of=None, instance=None))]
fn storage_limits<'py>(py: Python<'py>, storage: &str, as_of: Option<&str>, instance: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let day = date(as_of)?;
    let catalog = Catalog::embedded();
    let answer = (|| {
        let host = instance.map(|name| catalog.instance(name, day)).transpose()?;
        catalog.storage_limits(&storage.parse()?, day, host.as_ref())
    })();
    to_python(py, &answer.map_err(|error| catalog_error(&error))?)
}

/// Returns the IOPS that a storage sustains without credits; None for mirrors and parities.
#[pyfunction]
#[pyo3(signature = (storage, as_of=None))]
fn sustained_iops(storage: &str, as_of: Option<&str>) -> PyResult<Option<f64>> {
    let day = date(as_of)?;
    Catalog::embedded().sustained_iops(&read_storage(storage)?, day).map_err(|error| catalog_error(&error))
}

/// Returns the price list given as a dict (`volume_prices`, its rates perhaps changed), or that of
/// a region on a day.
fn price_list(prices: Option<&Bound<'_, PyAny>>, region: &str, as_of: Option<&str>) -> PyResult<RegionPrices> {
    match prices {
        Some(prices) => Ok(pythonize::depythonize(prices)?),
        None => Catalog::embedded().volume_prices(region, date(as_of)?).map_err(|error| catalog_error(&error)),
    }
}

/// Returns the items of a storage's monthly bill, USD.
#[pyfunction]
#[pyo3(signature = (storage, region, as_of=None, million_ios_per_month=0.0, prices=None))]
fn monthly_cost<'py>(
    py: Python<'py>,
    storage: &str,
    region: &str,
    as_of: Option<&str>,
    million_ios_per_month: f64,
    prices: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let items = Catalog::embedded().monthly_cost_at(&read_storage(storage)?, &price_list(prices, region, as_of)?, million_ios_per_month);
    to_python(py, &items.map_err(|error| catalog_error(&error))?)
}

/// Returns the monthly totals of many storages, USD; NaN where there is no price or the storage
/// does not exist.
#[pyfunction]
#[pyo3(signature = (storages, region, as_of=None, million_ios_per_month=0.0, prices=None))]
fn monthly_totals(
    storages: Vec<String>,
    region: &str,
    as_of: Option<&str>,
    million_ios_per_month: f64,
    prices: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<f64>> {
    let prices = price_list(prices, region, as_of)?;
    let total = |items: Vec<CostItem>| items.iter().map(|item| item.usd).sum();
    let bill = |storage: &String| Catalog::embedded().monthly_cost_at(&storage.parse()?, &prices, million_ios_per_month);
    Ok(storages.iter().map(|storage| bill(storage).map_or(f64::NAN, total)).collect())
}

/// Returns the name of a volume type in the price list and its billed components; None for local
/// disks.
#[pyfunction]
fn billed_as(volume_type: &str) -> PyResult<Option<(&'static str, Vec<&'static str>)>> {
    let volume_type: VolumeType = volume_type.parse().map_err(|error| catalog_error(&error))?;
    Ok(RegionPrices::billed_as(volume_type).map(|(product, components)| (product, components.to_vec())))
}

/// Adds the functions of this file to `headrace._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(volume_eras, module)?)?;
    module.add_function(wrap_pyfunction!(instances, module)?)?;
    module.add_function(wrap_pyfunction!(instance, module)?)?;
    module.add_function(wrap_pyfunction!(instance_price, module)?)?;
    module.add_function(wrap_pyfunction!(core_speed, module)?)?;
    module.add_function(wrap_pyfunction!(alone_faster, module)?)?;
    module.add_function(wrap_pyfunction!(commitment, module)?)?;
    module.add_function(wrap_pyfunction!(check_attachments, module)?)?;
    module.add_function(wrap_pyfunction!(volume_prices, module)?)?;
    module.add_function(wrap_pyfunction!(prices_seen, module)?)?;
    module.add_function(wrap_pyfunction!(region_code, module)?)?;
    module.add_function(wrap_pyfunction!(regions, module)?)?;
    module.add_function(wrap_pyfunction!(newest_date, module)?)?;
    module.add_function(wrap_pyfunction!(sources, module)?)?;
    module.add_function(wrap_pyfunction!(parse_storage, module)?)?;
    module.add_function(wrap_pyfunction!(storage_limits, module)?)?;
    module.add_function(wrap_pyfunction!(sustained_iops, module)?)?;
    module.add_function(wrap_pyfunction!(monthly_cost, module)?)?;
    module.add_function(wrap_pyfunction!(monthly_totals, module)?)?;
    module.add_function(wrap_pyfunction!(billed_as, module)?)
}
