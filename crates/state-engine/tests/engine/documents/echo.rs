//! A provider whose outputs echo its inputs.

use async_trait::async_trait;
use state_core::Properties;
use state_engine::provider::{
    CreateRequest, DeleteRequest, Diff, DiffRequest, Failure, Object, Provider, ReadRequest, ReadResult,
    UpdateRequest,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A provider that remembers the inputs that it received, and the order of creates.
#[derive(Clone, Debug, Default)]
pub(super) struct Echo {
    /// The inputs of the last create or update, by address.
    asked: Arc<Mutex<BTreeMap<String, Properties>>>,
    /// The addresses of all creates, in call order.
    made: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    pub(super) fn inputs(&self, address: &str) -> Properties {
        self.asked.lock().unwrap()[address].clone()
    }

    pub(super) fn made(&self) -> Vec<String> {
        self.made.lock().unwrap().clone()
    }

    fn asked(&self, address: &str, inputs: &Properties) {
        self.asked
            .lock()
            .unwrap()
            .insert(address.to_owned(), inputs.clone());
    }
}

#[async_trait]
impl Provider for Echo {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        let mut diff = Diff::changed(Diff::of_inputs(&request.old_inputs, &request.inputs));
        diff.changed.extend(request.unknown);
        Ok(diff)
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        let address = request.address.as_str();
        self.asked(address, &request.inputs);
        self.made.lock().unwrap().push(address.to_owned());
        Ok(Object::new(format!("e-{address}"), request.inputs))
    }

    async fn read(&self, request: ReadRequest) -> Result<ReadResult, Failure> {
        Ok(match request.id {
            Some(id) => ReadResult::Object(Object::new(id, request.inputs)),
            None => ReadResult::Missing,
        })
    }

    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        self.asked(request.address.as_str(), &request.inputs);
        Ok(Object::new(request.id.unwrap_or_default(), request.inputs))
    }

    async fn delete(&self, _: DeleteRequest) -> Result<(), Failure> {
        Ok(())
    }
}
