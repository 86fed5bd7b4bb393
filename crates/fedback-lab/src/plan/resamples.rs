//! Plausible other values of a fitted response, from the file that `fedback fit` leaves.
//!
//! The file has a line for every resample and client: the number of the resample, the client's name
//! (its place, from 0, where clients have no names), and the numbers of its sensitivity: one, one a
//! coordinate, or a matrix row after row. A run does not look at it.

use std::collections::BTreeMap;

use fedback_core::federation::Federation;
use fedback_core::response::{Bounded, Response, Sensitivity};

use super::response::Form;
use super::{Plan, client_labels};
use crate::csv_file::{CsvFile, number};
use crate::error::Error;

/// The federations of the resamples, one after the other: responses and bases differ, the rest is the
/// plan's.
pub struct Resamples<'a> {
    plan: &'a Plan,
    form: Form,
    sensitivities: std::vec::IntoIter<Sensitivity>,
}

impl Plan {
    /// The problem under each resample of the response; none where the spec names no resamples.
    pub fn resampled(&self) -> Result<Option<Resamples<'_>>, Error> {
        let response = &self.spec.problem.response;
        let Some(file) = response.resamples() else { return Ok(None) };
        let key = "problem.response.resamples";
        let path = std::path::Path::new(&self.directory).join(file);
        let fail = |message: String| Error::input(key, format!("{}: {message}", path.display()));
        let form = Form::of(response, self.federation().base())
            .map_err(|error| Error::input(key, error))?;
        let bytes =
            std::fs::read(&path).map_err(|error| fail(format!("cannot be read: {error}")))?;
        let names = client_labels(self.client_names.as_deref(), self.clients());
        let sensitivities = read(&bytes, &names, form.size()).map_err(fail)?.into_iter();
        Ok(Some(Resamples { plan: self, form, sensitivities }))
    }
}

impl Iterator for Resamples<'_> {
    type Item = Federation;

    fn next(&mut self) -> Option<Federation> {
        let shift = self.form.shift(&self.sensitivities.next()?);
        let mut federation = self.plan.federation().clone();
        if let Response::Bounded(bounded) = self.plan.federation().response() {
            let response = Response::Bounded(Bounded { shift, ..bounded.clone() });
            return federation.with_response(response).ok();
        }
        let reference = self.plan.spec.problem.response.reference();
        if let Some((reference, before)) = reference.zip(self.plan.federation().shift()) {
            federation.translate(before, &reference, 1.0);
            federation.translate(&shift, &reference, -1.0);
        }
        federation.with_response(shift).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.sensitivities.size_hint()
    }
}

impl ExactSizeIterator for Resamples<'_> {}

/// The sensitivities of every resample, in the order of their first lines.
fn read(bytes: &[u8], clients: &[String], size: usize) -> Result<Vec<Sensitivity>, String> {
    let mut file = CsvFile::new(bytes)?;
    if !file.names.iter().take(2).eq(["resample", "client"]) {
        return Err("line 1: the first columns are not resample and client".into());
    }
    let numbers = file.names.len() - 2;
    let allowed = [1, size, size * size];
    if !allowed.contains(&numbers) {
        let allowed = match size {
            1 => "1".into(),
            _ => format!("1, {size} or {}", size * size),
        };
        return Err(format!("line 1: found {numbers} numbers per client; allowed: {allowed}"));
    }
    let mut order = BTreeMap::<String, usize>::new();
    let mut found: Vec<Vec<Option<Vec<f64>>>> = Vec::new();
    while let Some(row) = file.next_row()? {
        let (line, name, client) = (row.line, row[0].to_string(), &row[1]);
        let place = clients.iter().position(|name| name == client).ok_or_else(|| {
            format!("line {line}: no client \"{client}\"; clients: {}", clients.join(", "))
        })?;
        let values = row.cells().skip(2).map(|cell| {
            number(cell, "finite numbers").map_err(|why| format!("line {line}: {why}"))
        });
        let values = values.collect::<Result<Vec<f64>, String>>()?;
        let at = *order.entry(name.clone()).or_insert(found.len());
        if at == found.len() {
            found.push(vec![None; clients.len()]);
        }
        if found[at][place].replace(values).is_some() {
            return Err(format!("line {line}: client \"{client}\" is twice in resample {name}"));
        }
    }
    if found.is_empty() {
        return Err("there are no resamples in it".into());
    }
    let name_of = |at: usize| order.iter().find(|entry| *entry.1 == at).map_or("", |entry| entry.0);
    let complete = |(at, resample): (usize, Vec<Option<Vec<f64>>>)| {
        if let Some(client) = resample.iter().position(Option::is_none) {
            let name = &clients[client];
            return Err(format!("client \"{name}\" is not in resample {}", name_of(at)));
        }
        let values: Vec<Vec<f64>> = resample.into_iter().flatten().collect();
        Ok(match numbers {
            1 => Sensitivity::Scalar(values.concat()),
            _ if numbers == size => Sensitivity::PerCoordinate(values),
            _ => Sensitivity::Matrix(
                values.iter().map(|v| v.chunks(size).map(<[f64]>::to_vec).collect()).collect(),
            ),
        })
    };
    found.into_iter().enumerate().map(complete).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_checked() {
        let clients = ["a".to_string(), "b".to_string()];
        let read = |text: &str| read(text.as_bytes(), &clients, 2);
        let good = "resample,client,s\n1,a,0.5\n1,b,0.25\n2,b,0.75\n2,a,1\n";
        assert_eq!(
            read(good).unwrap(),
            [Sensitivity::Scalar(vec![0.5, 0.25]), Sensitivity::Scalar(vec![1.0, 0.75])]
        );
        let wide = "resample,client,x,y\n1,a,1,2\n1,b,3,4\n";
        let rows = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
        assert_eq!(read(wide).unwrap(), [Sensitivity::PerCoordinate(rows)]);
        for (text, part) in [
            ("client,resample,s\n", "first columns"),
            ("resample,client,s,t,u\n", "found 3 numbers"),
            ("resample,client,s\n", "no resamples"),
            ("resample,client,s\n1,c,1\n", "no client \"c\""),
            ("resample,client,s\n1,a,1\n", "\"b\" is not in resample 1"),
            ("resample,client,s\n1,a,1\n1,a,2\n", "twice"),
            ("resample,client,s\n1,a,x\n", "line 2: found \"x\""),
            ("resample,client,s\n1,a,inf\n", "finite"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
