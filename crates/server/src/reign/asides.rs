//! Questions to workers beside the protocol, until they are answered or nobody waits any more.
//!
//! Invariant: an answer counts once, and only from the life that was asked, under the mandate under which
//! it was asked (safety rule 2).

use std::collections::BTreeMap;

use bytes::Bytes;
use sterna_model::Incarnation;
use sterna_protocol::message::Mandate;
use sterna_wire::Aside;
use tokio::sync::oneshot;

/// The questions of one reign.
#[derive(Debug)]
pub(super) struct Asides {
    mandate: Mandate,
    made: u64,
    /// Who was asked, and who waits.
    waiting: BTreeMap<u64, (Incarnation, oneshot::Sender<Bytes>)>,
}

impl Asides {
    pub(super) const fn new(mandate: Mandate) -> Self {
        Self { mandate, made: 0, waiting: BTreeMap::new() }
    }

    /// What to send; the answer goes to `reply`. Those who no longer wait are forgotten.
    pub(super) fn ask(
        &mut self,
        asked: Incarnation,
        payload: Bytes,
        reply: oneshot::Sender<Bytes>,
    ) -> Aside {
        self.waiting.retain(|_, (_, reply)| !reply.is_closed());
        self.made += 1;
        self.waiting.insert(self.made, (asked, reply));
        Aside::question(self.mandate, asked, self.made, payload)
    }

    /// It could not be sent: who waits hears so.
    pub(super) fn give_up(&mut self, question: &Aside) {
        self.waiting.remove(&question.number);
    }

    /// Hands an answer on to who waits for it.
    pub(super) fn answer(&mut self, answer: Aside) {
        let asked = self.waiting.get(&answer.number);
        if asked.is_some_and(|(asked, _)| answer.is_of(&self.mandate, asked))
            && let Some((_, reply)) = self.waiting.remove(&answer.number)
        {
            // Who no longer waits needs no answer.
            drop(reply.send(answer.payload));
        }
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::{ClusterId, Epoch, Nonce, Term, WallTime};

    use super::*;

    fn mandate(term: u64) -> Mandate {
        let cluster = ClusterId::from_parts(WallTime::EPOCH, [1; 10]);
        Mandate { cluster, epoch: Epoch::new(1), term: Term::new(term), nonce: Nonce::new(1) }
    }

    fn life(life: u64) -> Incarnation {
        let lock = "dir-0192f5e4a6c07bcd89abcdef01234567.machine-00112233445566778899aabbccddeeff";
        Incarnation { lock: lock.parse().unwrap(), life }
    }

    #[test]
    fn an_answer_counts_once_and_from_who_was_asked() {
        let mut asides = Asides::new(mandate(2));
        let (reply, mut answer) = oneshot::channel();
        let question = asides.ask(life(7), Bytes::from_static(b"what?"), reply);
        let said = question.answer(Bytes::from_static(b"that"));
        asides.answer(Aside { incarnation: life(8), ..said.clone() });
        asides.answer(Aside { mandate: mandate(1), ..said.clone() });
        asides.answer(Aside { version: 9, ..said.clone() });
        assert!(answer.try_recv().is_err());
        asides.answer(said.clone());
        assert_eq!(answer.try_recv().unwrap(), Bytes::from_static(b"that"));
        // A copy of it, and an answer to a question that is given up, find nobody.
        asides.answer(said);
        let (reply, mut answer) = oneshot::channel();
        let question = asides.ask(life(7), Bytes::new(), reply);
        asides.give_up(&question);
        asides.answer(question.answer(Bytes::new()));
        assert!(answer.try_recv().is_err());
    }

    #[test]
    fn a_question_that_nobody_waits_for_is_forgotten() {
        let mut asides = Asides::new(mandate(2));
        for _ in 0..100 {
            let (reply, answer) = oneshot::channel();
            asides.ask(life(7), Bytes::new(), reply);
            drop(answer);
        }
        assert_eq!(asides.waiting.len(), 1);
    }
}
