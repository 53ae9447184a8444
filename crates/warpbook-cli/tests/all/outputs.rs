//! Tests of the program's output files, and that no existing file is lost.

use crate::common::commands::{expect, recipe, warpbook};
use crate::common::place::{Place, read};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const REGRESSION: [&str; 10] =
    ["run", "regression", "--device", "cpu", "--points", "1k", "--epochs", "10", "--samples", "1"];

/// A recipe with short steps.
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
    refuse(&["view", "--html", "a.json", "b.json"], "is not a web page");
    refuse(&["view", "--html", "./b.json", "b.json"], "the same file as the record");
    refuse(&["attempt", "k.cu", "--like", "02_coalesced", "--out", "k.cu"], "the same file as the kernel");
    refuse(&["attempt", "k.cu", "--like", "02_coalesced", "--out", "hard.json"], "the same file as the kernel");
    refuse(&["merge", "a.json", "b.json", "--out", "b.json"], "the same file as the merged record");
    for option in ["--out", "--checkpoint", "--profile"] {
        refuse(&["train", "residual.toml", option, "residual.toml"], "the same file as the recipe");
    }
    refuse(&["train", "residual.toml", "--checkpoint", "x", "--out", "./x"], "the same file as --checkpoint");
    refuse(&["train", "residual.toml", "--out", "x.json", "--profile", "x.json"], "the same file as --out");
    refuse(&["train", "residual.toml", "--out", "x.trace.json", "--profile", "x.json"], "the same file as --out");
    refuse(&["train", "mnist", "--init", "w.st", "--checkpoint", "w.st"], "the same file as --init");
    refuse(&["train", "mnist", "--seeds", "1", "--out", "k.cu"], "is not a record of Warpbook");
    refuse(&["run", "regression", "--device", "cpu", "--out", "o.json/"], "it is a folder");
    refuse(
        &["view", "--html", "p.html/", "b.json"],
        "it is a folder; name a file in it. Nothing has been started; choose another file for --html",
    );
    place.write("settings.json", "{\"my\": \"settings\"}");
    refuse(&["run", "regression", "--device", "cpu", "--out", "settings.json"], "is not a record of Warpbook");
    place.write("data.xml", "<?xml version=\"1.0\"?><data/>");
    refuse(&["view", "--html", "data.xml", "b.json"], "is not a web page");
    assert_eq!(fs::read_to_string(place.path("data.xml")).unwrap(), "<?xml version=\"1.0\"?><data/>");
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
    // A failed run leaves no file behind.
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

#[test]
fn a_frozen_network_does_not_replace_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    for file in ["c.st", "d.st"] {
        let words = format!("train small.toml --device cpu --steps 1 --checkpoint {file}");
        expect(&run(&words), 0, &["step 1 is kept in"]);
    }
    let before = fs::read(folder.path().join("d.st")).unwrap();
    expect(&run("freeze c.st --out d.st"), 2, &["--out d.st: a file of that name exists and is not a frozen network"]);
    assert!(fs::read(folder.path().join("d.st")).unwrap() == before);
    for _ in 0..2 {
        expect(&run("freeze c.st --out f.st"), 0, &["f.st"]);
    }
    expect(&run("train small.toml --device cpu --steps 1 --checkpoint f.st"), 2, &["f.st", "is not a checkpoint"]);
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_a_killed_process_took_are_free_again() {
    let Some(place) = Place::new() else { return };
    let words = ["run", "regression", "--device", "cpu", "--points", "2M"];
    let mut child = place.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let reserved = place.path("regression.json");
    while !reserved.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it took its name");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::metadata(&reserved).unwrap().len(), 0, "it was killed before the first record");
    // At first there is only the empty file; later there is also a record.
    place.run(&["view", "--text", "."]).expect(2, "regression.json is empty, so it is skipped");
    place.record("good.json");
    let shown = place.run(&["view", "--text", "."]);
    assert!(shown.expect(0, "good.json").err.contains("regression.json is empty"), "{}", shown.err);
    place.run(&REGRESSION).expect(0, "Record: regression.json\n");
    assert!(!place.path("regression-2.json").exists());
}

/// Runs a shell script that starts the program as `"$@"`.
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
    // This file size limit would end a program that does not handle the signal SIGXFSZ.
    expect(&in_shell(&place, "ulimit -f 1; \"$@\"", &REGRESSION), 2, &["cannot be written: File too large"]);
    let left = |name: &str| name.ends_with(".part") || name.starts_with("regression");
    let names = fs::read_dir(place.folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| left(name)).count(), 0);
    // This simulates a disk with room for a record but not for a checkpoint.
    let small = "trap '' XFSZ; ulimit -f 64; \"$@\"";
    let train = ["train", "mnist", "--data", "synthetic", "--device", "cpu", "--steps", "1", "--checkpoint", "c.st"];
    expect(&in_shell(&place, small, &train), 2, &["The checkpoint c.st of", "Nothing was trained"]);
    place.write("p.html", "<html>good</html>");
    in_shell(&place, "trap '' XFSZ; ulimit -f 4; \"$@\"", &["view", "--html", "p.html", "a.json"]);
    assert_eq!(fs::read_to_string(place.path("p.html")).unwrap(), "<html>good</html>");
}

/// Returns true if this process ignores SIGHUP, the first signal in the mask that Linux shows.
#[cfg(target_os = "linux")]
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() & 1 == 1
}

#[cfg(target_os = "linux")]
#[test]
fn a_scheduler_s_signal_ends_a_training_as_ctrl_c_does() {
    let Some(place) = Place::new() else { return };
    place.write("small.toml", SMALL);
    let words = ["train", "small.toml", "--device", "cpu", "--epochs", "100000", "--log-every", "1"];
    let more = ["--checkpoint", "c.st", "--out", "r.json"];
    for signal in ["-TERM", "-HUP"] {
        // A program that is started by `nohup` ignores SIGHUP, and so do the programs that it starts.
        if signal == "-HUP" && ignores_hangups() {
            println!("skipped: SIGHUP is ignored in this session");
            continue;
        }
        let mut command = place.command(&[&words[..], &more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        lines.by_ref().find(|line| line.contains("loss")).unwrap();
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        lines.for_each(drop);
        let ended = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(told.contains("asked to end") && !told.contains("Ctrl-C"), "nobody has pressed a key: {told}");
        assert_eq!(ended.status.code(), Some(130), "{signal}");
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
        crate::common::place::Done::new(&["share", what], command.output().unwrap())
    };
    share(".").expect(0, "class.html");
    share("./").expect(0, "class-2.html");
    // A page must not replace the named viewer.
    for words in
        [&["share", "class/a.json", "--out", "viewer.html"][..], &["view", "class/a.json", "--html", "viewer.html"]]
    {
        let output = place.command(words).env("WARPBOOK_VIEWER", place.path("viewer.html")).output().unwrap();
        crate::common::place::Done::new(words, output).expect(2, "the same file as the viewer");
    }
    assert_eq!(fs::read_to_string(place.path("viewer.html")).unwrap(), viewer);
    let endless = place.command(&["share", "class/a.json"]).env("WARPBOOK_VIEWER", "/dev/zero").output().unwrap();
    expect(&endless, 2, &["The viewer /dev/zero cannot be read: it is longer than"]);
    assert!(place.path("class/class.html").exists() && !place.path("class/.html").exists());
}
