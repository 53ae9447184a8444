//! Tests that a network's file describes its training images, with `eval`, `freeze`, `predict` and `train --resume` as
//! users start them.

use crate::common::cache;
use crate::common::commands::{expect, warpbook};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use warpbook::data::png;
use warpbook::nn::network::{Network, flatten, linear};
use warpbook::nn::train::Recipe;
use warpbook::nn::weights::Weights;

/// A recipe for images in two classes.
const TWO: &str =
    "input = [1, 4, 4]\nlearning_rate = 0.5\nbatch = 8\nepochs = 4\nnetwork = [\"flatten\", \"linear 2\"]\n";

fn write_recipe(folder: &Path, name: &str, data: &str, more: &str) {
    fs::write(folder.join(name), format!("data = \"{data}\"\n{TWO}{more}")).unwrap();
}

/// A recipe for MNIST whose steps take almost no time.
const DIGITS: &str =
    "data = \"mnist\"\nbatch = 8\nlearning_rate = 0.05\nnetwork = [\"avg_pool 7\", \"flatten\", \"linear 10\"]\n";

/// Writes twenty grey images of each class, 12 wide and 4 high, with the given brightness and some noise.
fn write_images(folder: &Path, classes: [(&str, u8); 2]) {
    for (class, bright) in classes {
        fs::create_dir_all(folder.join(class)).unwrap();
        for i in 0..20u8 {
            let pixels: Vec<u8> = (0..48).map(|at| bright + (at + i) % 7).collect();
            fs::write(folder.join(class).join(format!("{i:03}.png")), png([1, 4, 12], &pixels).unwrap()).unwrap();
        }
    }
}

/// Writes two sets with a dark and a bright class each; cats and apples are dark.
fn two_sets() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_images(&folder.path().join("pets"), [("cat", 10), ("dog", 200)]);
    write_images(&folder.path().join("fruit"), [("apple", 10), ("pear", 200)]);
    write_recipe(folder.path(), "pets.toml", "pets", "");
    folder
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_checkpoint_is_of_the_images_that_it_was_trained_on() {
    let folder = two_sets();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    expect(&run("train pets.toml --data fruit --device cpu --checkpoint c.st"), 0, &["step 20 is kept"]);
    expect(&run("eval c.st"), 0, &["fruit: own data", "100.00 %"]);
    expect(&run("freeze c.st --out f.st"), 0, &["f.st"]);
    expect(&run("predict f.st fruit/apple/000.png"), 0, &["apple/000.png: apple ("]);
    expect(&run("eval f.st"), 0, &["fruit: own data", "100.00 %"]);
    // The message names the classes on both sides.
    let both = ["apple and pear", "cat and dog"];
    for words in
        ["eval c.st --data pets", "eval f.st --data pets", "eval pets.toml c.st", "freeze c.st --data pets --out g.st"]
    {
        expect(&run(words), 2, &both);
    }
    assert!(!folder.path().join("g.st").exists());
    // Without CIFAR-10's files, coloured digits of its shape are drawn; the files appear later.
    let lone =
        "data = \"cifar10\"\nbatch = 8\nlearning_rate = 0.05\nnetwork = [\"avg_pool 8\", \"flatten\", \"linear 10\"]\n";
    fs::write(folder.path().join("colours.toml"), lone).unwrap();
    let colours = run("train colours.toml --steps 1 --device cpu --checkpoint g.st");
    expect(&colours, 0, &["CIFAR-10 is not there, so coloured synthetic digits are used", "were not found", "step 1"]);
    expect(&run("eval g.st"), 0, &["synthetic coloured digits", "of 2000)"]);
    expect(&run("train cifar10-speedrun --device cpu"), 2, &["The files of cifar10 were not found"]);
    // The recipe accepts a checkpoint with the same classes.
    expect(&run("eval pets.toml c.st --data fruit"), 0, &["100.00 %"]);
    // Synthetic digits are not MNIST.
    fs::write(folder.path().join("digits.toml"), DIGITS).unwrap();
    expect(&run("train digits.toml --data synthetic --steps 1 --device cpu --checkpoint d.st"), 0, &["step 1"]);
    expect(&run("train digits.toml --steps 1 --device cpu --checkpoint e.st"), 0, &["MNIST is not there", "step 1"]);
    for file in ["d.st", "e.st"] {
        let judged = run(&format!("eval {file}"));
        expect(&judged, 0, &["synthetic digits", "of 2000)"]);
        assert!(!text(&judged).contains("MNIST is not there"), "{}", text(&judged));
    }
}

#[test]
fn the_files_of_a_named_set_are_found_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("own-idx");
    fs::create_dir(&place).unwrap();
    for (part, n) in [("train", 40u32), ("t10k", 10)] {
        let sizes = [n, 28, 28].map(u32::to_be_bytes).concat();
        let pixels: Vec<u8> = (0..n * 784).map(|i| (i / 784 % 10 * 25) as u8).collect();
        fs::write(place.join(format!("{part}-images-idx3-ubyte")), [&[0, 0, 8, 3], &sizes[..], &pixels].concat())
            .unwrap();
        let labels: Vec<u8> = (0..n).map(|i| (i % 10) as u8).collect();
        fs::write(
            place.join(format!("{part}-labels-idx1-ubyte")),
            [&[0, 0, 8, 1], &n.to_be_bytes()[..], &labels].concat(),
        )
        .unwrap();
    }
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    fs::write(folder.path().join("digits.toml"), DIGITS).unwrap();
    expect(&run("train digits.toml --data own-idx --steps 2 --device cpu --checkpoint c.st"), 0, &["step 2"]);
    expect(&run("eval c.st"), 0, &["MNIST: not", "of 10)"]);
    expect(&run("freeze c.st --out f.st"), 0, &["f.st"]);
    expect(&run("eval f.st"), 0, &["of 10)"]);
    fs::rename(&place, folder.path().join("moved")).unwrap();
    expect(&run("eval f.st"), 2, &["own-idx", "The network in f.st was trained on images from there", "--data DIR"]);
    expect(&run("eval f.st --data moved"), 0, &["of 10)"]);
    // A recipe for synthetic digits accepts a folder named by the user; a recipe for random numbers refuses it.
    fs::write(folder.path().join("drawn.toml"), DIGITS.replace("mnist", "synthetic")).unwrap();
    expect(&run("train drawn.toml --data moved --steps 1 --device cpu"), 0, &["MNIST: not", "step 1"]);
    expect(&run("train drawn.toml --data nowhere --steps 1 --device cpu"), 2, &["nowhere"]);
    expect(&run("train amp-recipe --data moved --edge 8 --steps 1 --device cpu"), 2, &["leave out --data"]);
    // If MNIST was found through a variable that is no longer set, the network is not tested on other digits.
    let mut command = Command::new(crate::common::program_path());
    command.args(["train", "digits.toml", "--steps", "1", "--device", "cpu", "--checkpoint", "v.st"]);
    command.current_dir(folder.path()).env("WARPBOOK_CACHE", cache(folder.path()));
    expect(&command.env("WARPBOOK_DATA", folder.path().join("moved")).output().unwrap(), 0, &["step 1"]);
    for words in ["eval v.st", "eval digits.toml v.st"] {
        expect(&run(words), 2, &["were not found"]);
    }
    expect(&run("eval v.st --data moved"), 0, &["of 10)"]);
}

#[test]
fn classes_are_matched_by_their_names() {
    let folder = two_sets();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    expect(&run("train pets.toml --device cpu --checkpoint c.st"), 0, &["step 20"]);
    expect(&run("freeze c.st --out f.st"), 0, &["f.st"]);
    // The third class, "cat", sorts before the others and so moves their indices. The network has three classes, and the folder has two of them.
    write_images(&folder.path().join("three"), [("cat", 10), ("dog", 200)]);
    write_images(&folder.path().join("three"), [("ape", 100), ("dog", 200)]);
    expect(&run("eval f.st --data three"), 2, &["cat and dog", "ape, cat and dog"]);
    let three = fs::read_to_string(folder.path().join("pets.toml")).unwrap().replace("linear 2", "linear 3");
    fs::write(folder.path().join("three.toml"), three.replace("pets", "three")).unwrap();
    expect(&run("train three.toml --device cpu --epochs 30 --checkpoint t.st"), 0, &["is kept"]);
    for words in ["eval t.st --data pets", "eval three.toml t.st --data pets"] {
        expect(&run(words), 0, &["100.00 %"]);
    }
    expect(&run("freeze t.st --out tf.st"), 0, &["tf.st"]);
    expect(&run("eval tf.st --data pets"), 0, &["100.00 %"]);
}

/// `predict` scales the whole image, like training and `eval`; the centre alone would not suffice here.
#[test]
fn an_image_is_prepared_as_in_the_training() {
    let folder = tempfile::tempdir().unwrap();
    let side = |left: bool, i: usize| -> Vec<u8> {
        (0..8 * 32)
            .map(|at| if (at % 32 < 8) == left && (at % 32 < 8 || at % 32 >= 24) { 200 + i as u8 } else { 0 })
            .collect()
    };
    for (class, left) in [("left", true), ("right", false)] {
        fs::create_dir_all(folder.path().join("sides").join(class)).unwrap();
        for i in 0..20 {
            let path = folder.path().join(format!("sides/{class}/{i}.png"));
            fs::write(path, png([1, 8, 32], &side(left, i)).unwrap()).unwrap();
        }
    }
    write_recipe(folder.path(), "sides.toml", "sides", "");
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    expect(&run("train sides.toml --device cpu --checkpoint c.st"), 0, &["is kept"]);
    expect(&run("eval c.st"), 0, &["100.00 %"]);
    expect(&run("freeze c.st --out f.st"), 0, &["f.st"]);
    for class in ["left", "right"] {
        for i in 0..20 {
            let image = format!("sides/{class}/{i}.png");
            expect(
                &run(&format!("predict f.st {image}")),
                0,
                &[&format!("{image}: {class} ("), "8 x 32 grey: scaled to 4 x 4"],
            );
        }
    }
}

#[test]
fn what_a_file_of_an_older_version_does_not_say_is_said() {
    let folder = two_sets();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    expect(&run("train pets.toml --device cpu --steps 6 --checkpoint c.st"), 0, &["step 6"]);
    expect(&run("freeze c.st --out f.st"), 0, &["f.st"]);
    for file in ["c.st", "f.st"] {
        make_older(&folder.path().join(file));
    }
    expect(&run("eval c.st"), 0, &["100.00 %", "c.st does not say which classes it was trained on", "by their number"]);
    expect(&run("freeze c.st --out g.st"), 0, &["c.st does not say which classes"]);
    expect(&run("train pets.toml --device cpu --resume c.st"), 0, &["resuming after step 6", "could not be compared"]);
    expect(&run("eval f.st"), 0, &["100.00 %"]);
    let predicted = run("predict f.st pets/dog/001.png");
    expect(
        &predicted,
        0,
        &["001.png: dog (", "f.st does not say how the images", "the whole of it is scaled", "scaled to 4 x 4"],
    );
}

/// Overwrites metadata that older versions did not write with blanks, so that the offsets stay the same.
fn make_older(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let mut about: serde_json::Value =
        serde_json::from_str(header["__metadata__"]["warpbook"].as_str().unwrap()).unwrap();
    let is_frozen = about.get("frozen").is_some();
    let description = if is_frozen { &mut about } else { &mut about["network"] };
    let fields = description.as_object_mut().unwrap();
    assert!(fields.remove("trained_on").is_some());
    if !is_frozen {
        assert!(fields.remove("classes").is_some());
        assert!(about.as_object_mut().unwrap().remove("made").is_some());
    }
    header["__metadata__"]["warpbook"] = about.to_string().into();
    let mut text = header.to_string();
    text.push_str(&" ".repeat(length - text.len()));
    fs::write(path, [&bytes[..8], text.as_bytes(), &bytes[8 + length..]].concat()).unwrap();
}

#[test]
fn a_training_does_not_go_on_with_something_else() {
    let folder = two_sets();
    let optimizer = |kind: &str| format!("[optimizer]\nkind = \"{kind}\"\nweight_decay = 0.1\n");
    write_recipe(folder.path(), "pets.toml", "pets", &optimizer("adam_w"));
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    expect(&run("train pets.toml --device cpu --steps 6 --checkpoint c.st"), 0, &["step 6"]);
    let resume = |more: &str| run(&format!("train pets.toml --device cpu --resume c.st{more}"));
    expect(&resume(" --batch 16"), 2, &["batches of 8", "batches of 16", "--init c.st"]);
    expect(&resume(" --no-shuffle"), 2, &["samples shuffled", "in their order"]);
    expect(&resume(" --seed 9"), 2, &["seed 1", "seed 9"]);
    expect(
        &resume(" --data fruit"),
        2,
        &[
            "pets: own data, 36 images",
            "of cat and dog",
            "fruit: own data, 36 images",
            "of apple and pear",
            "--init c.st",
        ],
    );
    let edited = |from: &str, to: &str, parts: &[&str]| {
        let text = fs::read_to_string(folder.path().join("pets.toml")).unwrap();
        fs::write(folder.path().join("pets.toml"), text.replace(from, to)).unwrap();
        expect(&resume(""), 2, parts);
        fs::write(folder.path().join("pets.toml"), text).unwrap();
    };
    edited("adam_w", "adam", &["another optimiser: adam_w (", "this training has adam ("]);
    edited("weight_decay = 0.1", "weight_decay = 0.2", &["weight_decay 0.1", "weight_decay 0.2"]);
    edited("[optimizer]", "normalise = { mean = [0.1] }\n[optimizer]", &["mean [0.5]", "mean [0.1]"]);
    edited("\"flatten\"", "\"relu\", \"flatten\"", &["another network: layer 1 is `flatten", "--init c.st"]);
    // The learning rate and the number of epochs may change, and the folder may be renamed.
    fs::rename(folder.path().join("pets"), folder.path().join("animals")).unwrap();
    fs::create_dir(folder.path().join("pets")).unwrap();
    expect(&resume(" --data animals --lr 0.1 --epochs 9"), 0, &["resuming after step 6"]);
    // One more image changes the choice of test images.
    fs::copy(folder.path().join("animals/cat/000.png"), folder.path().join("animals/cat/more.png")).unwrap();
    expect(&resume(" --data animals"), 2, &["36 images", "animals: own data"]);
    fs::remove_dir(folder.path().join("pets")).unwrap();
    fs::rename(folder.path().join("animals"), folder.path().join("pets")).unwrap();
    expect(&run("eval c.st"), 0, &["some of the test images may have been trained on"]);
}

#[test]
fn a_recipe_that_was_edited_is_not_that_of_the_checkpoint() {
    let folder = two_sets();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    expect(&run("train pets.toml --device cpu --checkpoint c.st"), 0, &["is kept"]);
    let edited = |from: &str, to: &str, parts: &[&str]| {
        let text = fs::read_to_string(folder.path().join("pets.toml")).unwrap();
        fs::write(folder.path().join("edited.toml"), text.replace(from, to)).unwrap();
        for words in ["eval edited.toml c.st", "freeze edited.toml c.st --out f.st"] {
            expect(&run(words), 2, &[parts, &["c.st needs no recipe"]].concat());
        }
    };
    edited("network", "normalise = { mean = [0.1] }\nnetwork", &["mean [0.5]", "mean [0.1]"]);
    edited("\"flatten\"", "\"relu\", \"flatten\"", &["layer 1 is `flatten", "`relu"]);
}

#[test]
fn weights_that_are_not_finite_are_refused_wherever_they_enter() {
    let folder = two_sets();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    let network = Network::new([1, 4, 4], [flatten(), linear(2)]).unwrap();
    let save = |name: &str, bad: f32| {
        let mut values = Weights::init(&network, 1).values().to_vec();
        values[0][3..12].fill(bad);
        Weights::new(&network, values).unwrap().save(folder.path().join(name)).unwrap();
    };
    save("nan.st", f32::NAN);
    for words in
        ["eval pets.toml nan.st", "freeze pets.toml nan.st --out f.st", "train pets.toml --device cpu --init nan.st"]
    {
        expect(&run(words), 2, &["fc1.weight has the value NaN at element 3 of 32"]);
    }
    assert!(!folder.path().join("f.st").exists());
    // The weights are finite, but the outputs of the network are not.
    save("large.st", 3e38);
    expect(&run("eval pets.toml large.st --device cpu"), 1, &["not a finite number"]);
    let recipe = Recipe { network: network.clone(), mean: vec![0.5], deviation: vec![0.5], ..Recipe::mnist() };
    let weights = Weights::load(&network, folder.path().join("large.st")).unwrap();
    let frozen = warpbook::nn::infer::Frozen::new(&recipe, &weights, &["cat", "dog"].map(str::to_owned)).unwrap();
    frozen.with_data("pets").save(folder.path().join("large-frozen.st")).unwrap();
    expect(&run("eval large-frozen.st --device cpu"), 1, &["not a finite number"]);
}

#[test]
fn what_lies_in_a_folder_and_is_not_read_is_counted() {
    let folder = two_sets();
    for name in ["cat/a.webp", "cat/b.webp", "dog/c.bmp"] {
        fs::write(folder.path().join("pets").join(name), "RIFF").unwrap();
    }
    let train = warpbook(folder.path(), &["train", "pets.toml", "--device", "cpu", "--checkpoint", "c.st"]);
    expect(&train, 0, &["1 .bmp and 2 .webp skipped", "PNG and JPEG", "36 samples"]);
    expect(&warpbook(folder.path(), &["eval", "c.st"]), 0, &["2 .webp skipped"]);
}

#[test]
fn hints_are_in_the_words_of_the_file_at_hand() {
    let folder = two_sets();
    fs::create_dir(folder.path().join("pets/emu")).unwrap();
    fs::copy(folder.path().join("pets/cat/000.png"), folder.path().join("pets/emu/a.png")).unwrap();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    expect(
        &run("train pets.toml"),
        2,
        &["pets.toml: `network` ends with 2 outputs", "has 3 classes: end it with \"linear 3\""],
    );
    expect(&run("train pets.toml --epochs -1"), 2, &["invalid value '-1' for '--epochs"]);
    fs::remove_dir_all(folder.path().join("pets/emu")).unwrap();
    expect(&run("train pets.toml --steps 1 --device cpu --checkpoint c.st"), 0, &["step 1"]);
    expect(
        &run("predict c.st pets/cat/000.png"),
        2,
        &["c.st is not a frozen network", "warpbook freeze c.st --out FILE"],
    );
}

#[test]
fn where_mnist_was_looked_for_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = crate::common::program_path();
    fs::write(folder.path().join("digits.toml"), DIGITS).unwrap();
    let with = |place: &Path| {
        let mut command = Command::new(&program);
        command.args(["train", "digits.toml", "--steps", "1", "--device", "cpu"]);
        command.current_dir(folder.path()).env("WARPBOOK_CACHE", cache(folder.path())).env("WARPBOOK_DATA", place);
        command.output().unwrap()
    };
    let missing = folder.path().join("mistyped");
    let named = format!("WARPBOOK_DATA names {}, which is not a folder", missing.display());
    expect(&with(&missing), 0, &[&named, "synthetic digits are used", "were not found in"]);
    fs::write(&missing, "a file").unwrap();
    expect(&with(&missing), 0, &[&named]);
    fs::create_dir(folder.path().join("there")).unwrap();
    let there = with(&folder.path().join("there"));
    expect(&there, 0, &["were not found in", "there/mnist"]);
    assert!(!text(&there).contains("which is not a folder"), "{}", text(&there));
}

#[test]
fn seeds_that_do_not_exist_are_refused() {
    let folder = two_sets();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    let last = "18446744073709551615";
    let refused = run(&format!("train pets.toml --device cpu --seeds 2 --seed {last} --out sd.json"));
    expect(&refused, 2, &["--seeds 2", "at most 18446744073709551614"]);
    assert!(!text(&refused).contains("Record:") && !folder.path().join("sd.json").exists());
    expect(&run(&format!("train pets.toml --device cpu --cold 2 --seed {last}")), 2, &["--cold 2"]);
    expect(&run("train pets.toml --device cpu --seeds 3 --seed 18446744073709551614"), 2, &["--seeds 3"]);
    // The largest possible seed works, too.
    let held = run(&format!("train pets.toml --device cpu --hold-out 8 --seed {last} --out held.json"));
    expect(&held, 0, &[&format!("seed {last}: "), "Record: held.json"]);
    assert!(folder.path().join("held.json").exists());
}

#[test]
fn one_gpu_that_is_asked_for_has_to_be_there() {
    let folder = two_sets();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    if !warpbook::device::Inventory::cuda_devices().unwrap_or_default().is_empty() {
        return;
    }
    for words in ["train pets.toml --gpus 1", "train pets.toml --gpus 1 --seeds 1", "train pets.toml --gpus 2"] {
        expect(&run(words), 3, &[]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn images_whose_place_a_checkpoint_cannot_name_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let folder = two_sets();
    let name = std::ffi::OsStr::from_bytes(b"d\xe4");
    fs::rename(folder.path().join("fruit"), folder.path().join(name)).unwrap();
    let train = |more: &[&str]| {
        let mut command = Command::new(crate::common::program_path());
        command.args(["train", "pets.toml", "--device", "cpu", "--steps", "1"]).args(more).arg("--data").arg(name);
        command.current_dir(folder.path()).env("WARPBOOK_CACHE", cache(folder.path())).output().unwrap()
    };
    expect(
        &train(&["--checkpoint", "c.st"]),
        2,
        &["not valid UTF-8, so the checkpoint cannot say where its images are"],
    );
    assert!(!folder.path().join("c.st").exists());
    expect(&train(&[]), 0, &["step 1: loss"]);
}

#[test]
fn control_characters_of_files_reach_no_terminal() {
    let folder = two_sets();
    let run = |words: &[&str]| text(&warpbook(folder.path(), words));
    let bytes = fs::read(write_named(folder.path(), "\u{1b}[31mred\u{7}")).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("[31mred"));
    let said = run(&["eval", "pets.toml", "named.st"]);
    assert!(said.contains("[31mred") && !said.contains(['\u{1b}', '\u{7}']), "{said:?}");
    let record = [
        "run",
        "regression",
        "--device",
        "cpu",
        "--points",
        "1k",
        "--epochs",
        "5",
        "--samples",
        "1",
        "--out",
        "r.json",
    ];
    run(&record);
    let path = folder.path().join("r.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let bad = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}";
    make_all_bad(&mut json, bad);
    fs::write(&path, json.to_string()).unwrap();
    let said = run(&["view", "--text", "r.json"]);
    assert!(said.contains("]0;title"), "{said}");
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{said:?}");
}

/// Appends these characters to all labels, titles and notes.
fn make_all_bad(value: &mut serde_json::Value, bad: &str) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    serde_json::Value::String(text)
                        if matches!(&**name, "label" | "title" | "idea" | "why" | "model") =>
                    {
                        text.push_str(bad);
                    }
                    value => make_all_bad(value, bad),
                }
            }
        }
        serde_json::Value::Array(all) => all.iter_mut().for_each(|value| make_all_bad(value, bad)),
        _ => {}
    }
}

/// Writes a safetensors file with one tensor of this name.
fn write_named(folder: &Path, name: &str) -> std::path::PathBuf {
    let tensor = serde_json::json!({ "dtype": "F32", "shape": [1], "data_offsets": [0, 4] });
    let header = serde_json::json!({ name: tensor }).to_string();
    let path = folder.join("named.st");
    fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat()).unwrap();
    path
}
