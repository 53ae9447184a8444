//! Tests of what the program writes, and that it loses no existing file.

use crate::common::commands::{expect, recipe, warpbook};
use crate::common::place::{Place, read};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const REGRESSION: [&str; 10] =
    ["run", "regression", "--device", "cpu", "--points", "1k", "--epochs", "10", "--samples", "1"];

/// A recipe whose steps are short.
const SMALL: &str = "data = \"synthetic\"\nbatch = 8\nlearning_rate = 0.01\n\
                     network = [\"avg_pool 7\", \"flatten\", \"linear 10\"]\n";

#[test]
fn no_output_replaces_what_a_command_reads_or_writes() {
    let Some(place) = Place::new() else { return };
    place.record("a.json");
    place.run(&[&REGRESSION[..], &["--out", "b.json"]].concat()).expect(0, "Record: ");
    let kernel = place.run(&["attempt", "--like", "02_coalesced"]).out;
    place.write("k.cu", &kernel);
    fs::hard_link(place.path("k.cu"), place.path("hard.json")).unwrap();
    recipe(place.folder.path(), "residual.toml");
    let before = |name: &str| fs::read(place.path(name)).unwrap();
    let all = ["a.json", "b.json", "k.cu", "residual.toml"].map(|name| (name, before(name)));
    let refuse = |words: &[&str], part: &str| {
        place.run(words).expect(2, part);
        for (name, bytes) in &all {
            assert!(before(name) == *bytes, "{name} after {words:?}");
        }
    };
    refuse(&["view", "--html", "a.json", "b.json"], "which is no page");
    refuse(&["view", "--html", "./b.json", "b.json"], "also the file of a record");
    refuse(&["attempt", "k.cu", "--like", "02_coalesced", "--out", "k.cu"], "also the file of the kernel");
    refuse(&["attempt", "k.cu", "--like", "02_coalesced", "--out", "hard.json"], "also the file of the kernel");
    refuse(&["merge", "a.json", "b.json", "--out", "b.json"], "also the file of a record that is merged");
    for option in ["--out", "--checkpoint", "--profile"] {
        refuse(&["train", "residual.toml", option, "residual.toml"], "also the file of the recipe");
    }
    refuse(&["train", "residual.toml", "--checkpoint", "x", "--out", "./x"], "also the file of --checkpoint");
    refuse(&["train", "residual.toml", "--out", "x.json", "--profile", "x.json"], "also the file of --out");
    refuse(&["train", "residual.toml", "--out", "x.trace.json", "--profile", "x.json"], "also the file of --out");
    refuse(&["train", "mnist", "--init", "w.st", "--checkpoint", "w.st"], "also the file of --init");
    refuse(&["train", "mnist", "--seeds", "1", "--out", "k.cu"], "which is no record");
    refuse(&["run", "regression", "--device", "cpu", "--out", "o.json/"], "it is a folder");
    place.run(&["merge", "a.json", "b.json", "--out", "a.json"]).expect(0, "Record: a.json");
}

#[test]
fn default_names_are_new_ones_for_everybody() {
    let Some(place) = Place::new() else { return };
    let start = || place.command(&REGRESSION).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let all: Vec<_> = (0..4).map(|_| start()).collect();
    assert!(all.into_iter().all(|mut child| child.wait().unwrap().success()));
    for name in ["regression.json", "regression-2.json", "regression-3.json", "regression-4.json"] {
        assert_eq!(read(&place.path(name)).problems().len(), 1, "{name}");
    }
    // A run that fails leaves no file behind.
    place.run(&["run", "regression", "--device", "cpu", "--points", "0"]).expect(2, "2 are the least");
    assert!(!place.path("regression-5.json").exists());
}

#[cfg(unix)]
#[test]
fn a_checkpoint_keeps_link_and_permissions() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("store")).unwrap();
    symlink("store/real.st", at("c.st")).unwrap();
    fs::write(at("small.toml"), SMALL).unwrap();
    let train = |steps: &str, more: &[&str]| {
        let words = ["train", "small.toml", "--device", "cpu", "--steps", steps];
        warpbook(folder.path(), &[&words[..], &["--checkpoint", "c.st"], more].concat())
    };
    expect(&train("1", &[]), 0, &["step 1 is kept in c.st"]);
    fs::set_permissions(at("store/real.st"), fs::Permissions::from_mode(0o600)).unwrap();
    let first = fs::read(at("store/real.st")).unwrap();
    expect(&train("2", &["--resume", "c.st"]), 0, &["step 2 is kept in c.st"]);
    assert!(at("c.st").is_symlink() && fs::read(at("store/real.st")).unwrap() != first);
    assert_eq!(fs::metadata(at("store/real.st")).unwrap().permissions().mode() & 0o777, 0o600);
    symlink("store/frozen.st", at("f.st")).unwrap();
    expect(&warpbook(folder.path(), &["freeze", "c.st", "--out", "f.st"]), 0, &["f.st"]);
    assert!(at("f.st").is_symlink() && at("store/frozen.st").is_file());
    assert_eq!(fs::read_dir(at("store")).unwrap().count(), 2, "nothing is left over");
}

/// A script of the shell, which starts the program as `"$@"`.
#[cfg(target_os = "linux")]
fn in_shell(place: &Place, script: &str, words: &[&str]) -> std::process::Output {
    let own = place.command(words);
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(own.get_program()).args(words).current_dir(place.folder.path());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?)))).env_remove("WARPBOOK_DATA");
    command.output().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_told_by_the_exit_code() {
    let Some(place) = Place::new() else { return };
    place.record("a.json");
    let full = "\"$@\" > /dev/full";
    expect(&in_shell(&place, full, &["view", "--text", "a.json"]), 2, &["Standard output cannot be written"]);
    expect(&in_shell(&place, full, &["attempt", "--like", "02_coalesced"]), 2, &["No space left"]);
    expect(&in_shell(&place, full, &["--help"]), 2, &[]);
    expect(&in_shell(&place, "\"$@\" | head -n 1 > /dev/null", &["view", "--text", "a.json"]), 0, &[]);
    // This acts like a disk with room for a record but not for a checkpoint.
    let small = "trap '' XFSZ; ulimit -f 64; \"$@\"";
    let train = ["train", "mnist", "--data", "synthetic", "--device", "cpu", "--steps", "1", "--checkpoint", "c.st"];
    expect(&in_shell(&place, small, &train), 2, &["The checkpoint c.st of", "Nothing was trained"]);
    place.write("p.html", "<html>good</html>");
    in_shell(&place, "trap '' XFSZ; ulimit -f 4; \"$@\"", &["view", "--html", "p.html", "a.json"]);
    assert_eq!(fs::read_to_string(place.path("p.html")).unwrap(), "<html>good</html>");
}

#[cfg(target_os = "linux")]
#[test]
fn a_scheduler_s_signal_ends_a_training_as_ctrl_c_does() {
    let Some(place) = Place::new() else { return };
    place.write("small.toml", SMALL);
    let words = ["train", "small.toml", "--device", "cpu", "--epochs", "100000", "--log-every", "1"];
    let more = ["--checkpoint", "c.st", "--out", "r.json"];
    for signal in ["-TERM", "-HUP"] {
        let mut command = place.command(&[&words[..], &more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        lines.by_ref().find(|line| line.contains("loss")).unwrap();
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        lines.for_each(drop);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        assert!(read(&place.path("r.json")).notes.iter().any(|note| note.contains("was stopped after step")));
        for name in ["c.st", "r.json"] {
            fs::remove_file(place.path(name)).unwrap();
        }
    }
}

#[test]
fn a_shared_folder_names_its_page() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("class")).unwrap();
    place.record("class/a.json");
    let viewer = "<meta http-equiv=\"Content-Security-Policy\" content=\"x\"><style></style>\
        <script type=\"application/json\" id=\"warpbook-embedded\">{}</script><script></script>";
    place.write("viewer.html", viewer);
    let share = |what: &str| {
        let mut command = place.command(&["share", what]);
        command.current_dir(place.path("class")).env("WARPBOOK_VIEWER", place.path("viewer.html"));
        crate::common::place::Done::of(&["share", what], command.output().unwrap())
    };
    share(".").expect(0, "class.html");
    share("./").expect(0, "class-2.html");
    assert!(place.path("class/class.html").exists() && !place.path("class/.html").exists());
}
