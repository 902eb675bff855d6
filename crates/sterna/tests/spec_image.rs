//! What a spec says of an image is what a worker reads.

use sterna_api::spec::{Source, Specs, read};
use sterna_model::IMAGES_TAG;
use sterna_model::payload::Work;

fn specs(text: &str) -> Specs {
    let text = format!("version = 1\n{text}");
    read(&[Source { name: "test.toml", text: &text }])
        .unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn an_image_arrives_and_its_work_asks_for_a_worker_that_can_run_it() {
    let specs = specs(
        "[service.x]
        run = ['./x']
        tags = ['ssd']
        [service.x.image]
        rootfs = '/images/x'
        read_only = true
        network = 'none'
        mounts = [{ source = '/srv', target = '/www', read_only = true }, { source = '/a', target = '/b' }]
        [task.y]
        image = { bundle = '/bundles/y' }\n",
    );
    let spec = specs.services.values().next().expect("one was written");
    let work: Work = serde_json::from_slice(&spec.work).expect("a worker reads it");
    let image = serde_json::to_value(work.image).expect("it is JSON");
    let expected = serde_json::json!({
        "rootfs": "/images/x",
        "read_only": true,
        "mounts": [
            { "source": "/srv", "target": "/www", "read_only": true },
            { "source": "/a", "target": "/b" },
        ],
        "network": "none",
    });
    assert_eq!(image, expected);
    let tags: Vec<_> = spec.wants.constraints.tags.iter().map(ToString::to_string).collect();
    assert_eq!(tags, ["ssd", IMAGES_TAG]);
    let task = specs.tasks.values().next().expect("one was written");
    let work: Work = serde_json::from_slice(&task.spec.work).expect("a worker reads it");
    assert!(work.run.is_empty(), "the command of the bundle is run");
    assert!(task.spec.wants.constraints.tags.iter().any(|tag| tag.as_str() == IMAGES_TAG));
}
