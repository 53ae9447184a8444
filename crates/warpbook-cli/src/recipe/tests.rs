use super::plan::{Plan, shape_of};
use super::*;
use std::path::Path;
use warpbook::gemm::ProductBy;
use warpbook::nn::network::{
    Network, ParamSpec, avg_pool, batch_norm, conv2d, dropout, flatten, gelu, linear, max_pool, relu, residual,
};
use warpbook::nn::ops::conv2d::cuda::Method;
use warpbook::nn::ops::muon::Muon;
use warpbook::nn::ops::optimizer::Optimizer;
use warpbook::nn::ops::optimizer::groups::Group;
use warpbook::nn::ops::schedule::Schedule;
use warpbook::nn::train::{Augmentation, Initial, Loss, Recipe, Views};

fn parse(text: &str) -> Result<Plan, String> {
    super::parse(Path::new("my.toml"), text)
}

const SMALL: &str = "data = \"synthetic\"\nlearning_rate = 0.1\nnetwork = [\"flatten\", \"linear 10\"]\n";

#[test]
fn a_file_says_what_computes_it_on_a_gpu() {
    let by = |keys: &str| parse(&format!("{keys}\n{SMALL}")).map(|plan| plan.by);
    assert_eq!(by("").unwrap(), ComputedBy::default());
    let naive = by("product = \"naive\"").unwrap();
    assert_eq!((naive.product, naive.convolution), (Some(ProductBy::Naive), None));
    let stock = ComputedBy { product: Some(ProductBy::Stock), convolution: Some(ConvolutionBy::Stock) };
    assert_eq!(by("product = \"stock\"\nconvolution = \"stock\"").unwrap(), stock);
    let error = by("\nconvolution = \"naive\"").unwrap_err();
    assert!(error.contains("line 2") && error.contains("choose from own, im2col, stock"), "{error}");
    assert!(by("product = 3").unwrap_err().contains("a text in quotes"));
    assert!(by("product = \"stok\"").unwrap_err().contains("did you mean `stock`?"));
    assert_eq!(by("product = \"tiled_16\"").unwrap().product, Some(ProductBy::Tiled16));
    let rung = by("product = \"05_register_2d\"").unwrap().product.unwrap();
    assert_eq!(&*rung.rows()[0].rung.id, "05_register_2d");
}

#[test]
fn a_layer_says_what_computes_it_and_a_kernel_lies_next_to_the_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let source = warpbook::LiveKernel::for_rung("03_shared_tile").unwrap().text().to_owned();
    std::fs::write(folder.path().join("mine.cu"), source).unwrap();
    let parse = |layer: &str| {
        let text = format!(
            "data = \"mnist\"\nlearning_rate = 0.1\nnetwork = [\"conv2d 4 3x3\", {{ layer = \"conv2d 4 3x3\", convolution = \"stock\" }}, \"flatten\",\n{layer},\n\"linear 10\"]"
        );
        super::parse(&folder.path().join("my.toml"), &text)
    };
    let computed_by =
        |layer: &str| parse(layer).unwrap().recipe.network.nodes().iter().map(|node| node.by).collect::<Vec<_>>();
    let all = computed_by("{ layer = \"linear 32\", product = \"mine.cu@03_shared_tile\" }");
    assert_eq!(all[3].product.unwrap().rows()[0].rung.id, "03_shared_tile+mine");
    assert_eq!((all[0].convolution, all[1].convolution, all[4].product), (None, Some(Method::Stock), None));
    assert_eq!(computed_by("{ layer = \"linear 32\", product = \"tiled\" }")[3].product, Some(ProductBy::Tiled));
    let error = parse("{ layer = \"linear 32\", product = \"none.cu\" }").unwrap_err();
    assert!(error.contains("line 4") && error.contains("none.cu cannot be read"), "{error}");
    let error = parse("{ layer = \"relu\", product = \"tiled\" }").unwrap_err();
    assert!(error.contains("line 4") && error.contains("has no product"), "{error}");
    assert!(parse("{ layer = \"liner 32\" }").unwrap_err().contains("is not a layer"));
}

#[test]
fn a_file_says_in_how_many_segments_it_is_checkpointed() {
    let two =
        "data = \"synthetic\"\nlearning_rate = 0.1\nnetwork = [\"flatten\", \"linear 16\", \"relu\", \"linear 10\"]\n";
    let segments = |keys: &str| parse(&format!("{keys}\n{two}")).map(|plan| plan.recipe.network.segments().len());
    assert_eq!([segments("").unwrap(), segments("segments = 2").unwrap()], [1, 2]);
    let error = segments("\nsegments = 9").unwrap_err();
    assert!(error.contains("line 2") && error.contains("1 to 3 segments, not 9"), "{error}");
    assert!(segments("segments = 0").is_err());
}

#[test]
fn a_file_says_everything_that_a_recipe_has() {
    let plan = parse(
        r#"
name = "all"
data = "cifar10"
batch = 64
accumulate = 4
epochs = 7
steps = 1_000
seed = 9
learning_rate = 3e-3
clip = 1
shuffle = false
network = [
    "conv2d 8 3x3 padding 1 no_bias name stem",
    "batch_norm momentum 0.2 epsilon 1e-3",
    "relu",
    { residual = ["conv2d 8 3 padding 1", "gelu", { residual = ["relu"] }], name = "block" },
    "max_pool 3 stride 2 padding 1",
    "avg_pool 2",
    "dropout 0.25",
    "flatten",
    "linear 10 name head",
]
[optimizer]
kind = "adam-w"
betas = [0.8, 0.99]
epsilon = 1e-6
weight_decay = 0.05
[schedule]
kind = "one-cycle"
by = "step"
total = 100
rise = 0.2
[loss]
kind = "cross_entropy"
smoothing = 0.1
[augmentation]
crop = 2
flip = true
[normalise]
mean = [0.4914, 0.4822, 0.4465]
deviation = [0.2470, 0.2435, 0.2616]
"#,
    )
    .unwrap();
    let layers = [
        conv2d(8, 3).padding(1).without_bias().named("stem"),
        batch_norm().momentum(0.2).epsilon(1e-3),
        relu(),
        residual([conv2d(8, 3).padding(1), gelu(), residual([relu()])]).named("block"),
        max_pool(3).stride(2).padding(1),
        avg_pool(2),
        dropout(0.25),
        flatten(),
        linear(10).named("head"),
    ];
    let recipe = Recipe {
        name: "all".into(),
        network: Network::new([3, 32, 32], layers).unwrap(),
        loss: Loss::CrossEntropy { smoothing: 0.1 },
        optimizer: Optimizer::AdamW { betas: [0.8, 0.99], epsilon: 1e-6, weight_decay: 0.05 },
        learning_rate: 3e-3,
        schedule: Schedule::OneCycle { total: 100, rise: 0.2, start_divisor: 25.0, end_divisor: 1e4 },
        schedule_by_step: true,
        clip: Some(1.0),
        batch: 64,
        accumulate: 4,
        epochs: 7,
        steps: Some(1000),
        mean: vec![0.4914, 0.4822, 0.4465],
        deviation: vec![0.2470, 0.2435, 0.2616],
        groups: Vec::new(),
        initial: Initial::default(),
        views: Views::One,
        augmentation: Some(Augmentation::new(2, true)),
        shuffle: false,
        seed: 9,
    };
    assert_eq!(plan, Plan { recipe, images: Images::Known("cifar10"), by: ComputedBy::default() });
}

#[test]
fn a_batch_is_made_in_so_many_parts() {
    let parts = |keys: &str| parse(&format!("{keys}\n{SMALL}")).map(|plan| (plan.recipe.batch, plan.recipe.accumulate));
    assert_eq!(parts("batch = 64\naccumulate = 4").unwrap(), (64, 4));
    let error = parts("batch = 4\naccumulate = 5").unwrap_err();
    assert!(error.contains("line 2") && error.contains("`accumulate` is 5, and a batch has 4 samples"), "{error}");
    assert!(parts("accumulate = 0").is_err());
}

#[test]
fn layers_written_in_a_file_come_back() {
    // The layers of a network are printed in the words that the reader of recipes accepts.
    for network in [Recipe::mnist().network, Recipe::cifar10().network] {
        let shape = network.input();
        let written: Vec<String> = network.nodes().iter().map(|n| format!("{:?}", n.written)).collect();
        let data = if shape.channels() == 1 { "mnist" } else { "cifar10" };
        let text = format!("data = \"{data}\"\nlearning_rate = 1\nnetwork = [{}]", written.join(", "));
        assert_eq!(parse(&text).unwrap().recipe.network, network);
    }
}

#[test]
fn what_is_left_out_is_usual() {
    let plan = parse(SMALL).unwrap();
    let r = &plan.recipe;
    assert_eq!((r.name.as_str(), r.batch, r.epochs, r.steps, r.seed, r.shuffle), ("my", 128, 10, None, 1, true));
    assert_eq!(r.accumulate, 1);
    assert_eq!((&r.optimizer, &r.schedule), (&Optimizer::sgd(), &Schedule::Constant));
    assert_eq!((&r.mean[..], &r.deviation[..]), (&[0.1307][..], &[0.3081][..]));
    assert_eq!((plan.images.clone(), shape_of(&plan.recipe)), (Images::Known("synthetic"), Some([1, 28, 28])));
    let with = |more: &str| parse(&format!("{SMALL}{more}")).unwrap().recipe;
    assert_eq!(with("[optimizer]\nkind = \"adam\"").optimizer, Optimizer::adam());
    assert_eq!(with("[optimizer]\nkind = \"adam_w\"").optimizer, Optimizer::adam_w());
    assert_eq!(with("[schedule]\nkind = \"step\"\nevery = 5").schedule, Schedule::Step { every: 5, gamma: 0.1 });
    assert_eq!(with("[schedule]\nkind = \"one_cycle\"\ntotal = 8").schedule, Schedule::one_cycle(8));
}

#[test]
fn what_is_wrong_is_told_with_key_and_line() {
    let check = |text: &str, expect: &[&str]| {
        let sentence = parse(text).unwrap_err();
        assert!(sentence.starts_with("my.toml, line "), "{sentence}");
        for part in expect {
            assert!(sentence.contains(part), "`{part}` in {sentence}");
        }
    };
    let add = |more: &str| format!("{SMALL}{more}");
    check("data = ", &["line 1", "not TOML"]);
    check(&add("data = \"mnist\""), &["line 4", "not TOML"]);
    check(&add("epoch = 3"), &["line 4", "no key `epoch`", "did you mean `epochs`?"]);
    check(&add("weather = 3"), &["no key `weather`", "choose from name, data"]);
    check(&add("epochs = -3"), &["line 4", "`epochs` is -3", "a whole number of at least 1"]);
    check(&add("epochs = 5_000_000_000"), &["`epochs` is at most"]);
    check(&add("batch = 0.5"), &["`batch` is 0.5"]);
    check(&add("batch = \"many\""), &["`batch` is the text \"many\""]);
    check(&add("shuffle = 1"), &["`shuffle` is 1", "true or false"]);
    check(&add("clip = 0"), &["`clip` is 0", "above 0"]);
    check(&add("[optimizer]\nkind = \"adamm\""), &["line 5", "`optimizer.kind` is \"adamm\"", "did you mean `adam`?"]);
    check(&add("[optimizer]\nkind = \"adamw\""), &["line 5", "did you mean `adam_w`?"]);
    check(&add("[optimizer]\nkind = \"AdamW\""), &["did you mean `adam_w`?"]);
    check(&add("[schedule]\nkind = \"onecycle\""), &["did you mean `one_cycle`?"]);
    check(&add("learningrate = 3"), &["did you mean `learning_rate`?"]);
    check(&add("[optimizer]\nkind = \"adam\"\nmomentum = 0.9"), &["line 6", "no key `optimizer.momentum`", "betas"]);
    check(&add("[optimizer]\nmomentum = 0.9"), &["line 4", "`optimizer.kind` is missing", "sgd, adam, adam_w"]);
    check(&add("[optimizer]\nkind = \"sgd\"\nnesterov = true"), &["line 4", "Nesterov"]);
    check(&add("[optimizer]\nkind = \"adam\"\nbetas = [1]"), &["`optimizer.betas` must be two numbers"]);
    check(&add("optimizer = \"adam\""), &["`optimizer` is the text \"adam\"", "write [optimizer]"]);
    check(&add("[schedule]\nkind = \"cosine\""), &["`schedule.period` is missing"]);
    check(&add("[schedule]\nkind = \"step\"\nevery = 2\ngamma = -1"), &["line 4", "`schedule`", "gamma"]);
    check(&add("[schedule]\nkind = \"constant\"\nby = \"week\""), &["`schedule.by` is \"week\"", "epoch, step"]);
    check(&add("[loss]\nkind = \"mse\""), &["`loss.kind` is \"mse\"", "cross_entropy"]);
    check(&add("[loss]\nkind = \"cross_entropy\"\nsmoothing = 1"), &["from 0 to below 1"]);
    check(&add("[augmentation]\ncrop = 2000"), &["`augmentation.crop` is 2000"]);
    check(
        &add("[normalise]\nmean = [0.5, 0.5]"),
        &["line 5", "`normalise.mean` has 2 numbers, and images have 1 channel: write one for each"],
    );
    check(&add("[normalise]\nmean = [1e39]"), &["line 5", "`normalise.mean` has the number 1e39", "finite 32-bit"]);
    check(
        &add("[normalise]\nmean = ['a']"),
        &["line 5", "`normalise.mean` has something else than numbers in its list"],
    );
    check(&add("[normalise]\ndeviation = [0]"), &["above 0"]);
    check(&add("input = [3, 28, 28]"), &["`input` is [3, 28, 28]", "leave it out"]);
    check(&add("input = [28, 28]"), &["[channels, height, width]"]);
    check("learning_rate = 1\nnetwork = []", &["`data` is missing"]);
    check("data = \"mnst\"\nlearning_rate = 1\nnetwork = []", &["`data` is \"mnst\"", "mnist, fashion-mnist"]);
    check("data = \"mnist\"\nnetwork = [\"flatten\", \"linear 10\"]", &["`learning_rate` is missing"]);
    check("data = \"mnist\"\nlearning_rate = 1", &["`network` is missing"]);
    let net = |layers: &str| format!("data = \"mnist\"\nlearning_rate = 1\nnetwork = [\n{layers}\n]");
    check(&net(""), &["line 3", "no layers"]);
    check(&net("\"conv2d 8 3\",\n\"conf2d 8 3\""), &["line 5", "`conf2d` is not a layer"]);
    check(&net("\"conv2d 8 3\",\n\"conv2d 8 30\",\n\"relu\""), &["line 5", "conv2", "30 x 30"]);
    check(&net("\"flatten\",\n\"linear 7\""), &["line 5", "7 outputs", "10 classes", "linear 10"]);
    // The message uses the words of the file, not the names in the library.
    check(&net("\"linear 10\""), &["line 4", "Put a `flatten` layer before it"]);
    check(&net("\"flatten\",\n3"), &["line 5", "a layer is a text"]);
    check(&net("{ residual = [\n\"relu\", \"relux\"] }"), &["line 5", "`relux`"]);
    check(&net("{ residal = [] }"), &["line 4", "`network.residal`", "did you mean `residual`?"]);
    check(&net("{ name = \"a\" }"), &["`network.residual` is missing"]);
}

#[test]
fn names_that_are_no_recipe_are_refused() {
    let check = |name: &str, expect: &str| {
        let sentence = find_recipe(name).unwrap_err().sentence;
        assert!(sentence.contains(expect), "{sentence}");
    };
    check("imagenet", "choose mnist, cifar10, cifar10-speedrun or amp-recipe, or name a file");
    check("none.toml", "none.toml cannot be read");
    assert_eq!(find_recipe("mnist").unwrap().images, Images::Known("mnist"));
}

#[test]
fn a_folder_of_images_is_taken_with_its_shape() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("pictures")).unwrap();
    let path = folder.path().join("own.toml");
    let write = |more: &str| {
        let text = format!("data = \"pictures\"\nlearning_rate = 1\nnetwork = [\"flatten\", \"linear 2\"]\n{more}");
        std::fs::write(&path, text).unwrap();
        find_recipe(path.to_str().unwrap())
    };
    let plan = write("input = [3, 8, 8]").unwrap();
    assert_eq!(plan.images, Images::Folder(folder.path().join("pictures")));
    assert_eq!((shape_of(&plan.recipe), plan.recipe.mean), (Some([3, 8, 8]), vec![0.5; 3]));
    assert!(write("").unwrap_err().sentence.contains("`input` is missing"));
    assert!(write("input = [2, 8, 8]").unwrap_err().sentence.contains("1 channel"));
}

#[test]
fn the_speedrun_is_a_recipe_like_others() {
    let plan = find_recipe(SPEEDRUN).unwrap();
    let (recipe, network) = (&plan.recipe, &plan.recipe.network);
    // The network has 24 whitening filters with a bias, six convolutions with a shift each, and the head.
    let filters = [24 * 64, 64 * 64, 64 * 256, 256 * 256, 256 * 256, 256 * 256].map(|n| 9 * n).iter().sum::<usize>();
    let trained: usize = network.params().iter().filter(|p| recipe.trains(p)).map(ParamSpec::len).sum();
    assert_eq!(trained, filters + 24 + 2 * (64 + 256 + 256) + 2560);
    let grouped = recipe.grouped().unwrap().unwrap();
    assert!(grouped.rule_of_parameter.iter().all(|of| *of != Some(0)), "a group has every parameter that is trained");
    assert_eq!((recipe.total_steps(50_000), recipe.views), (200, Views::FlipsAndShifts));
    let last = |schedule: Schedule, time| schedule.at(1.0, time).unwrap();
    assert!(last(recipe.schedule, 199) > 0.0 && last(recipe.schedule, 200) == 0.0);
    recipe.validate([3, 32, 32], 10).unwrap();
}

#[test]
fn groups_are_read_and_told() {
    let with = |text: &str| {
        let head = "data = \"mnist\"\nlearning_rate = 0.1\nnetwork = [\"conv2d 4 3\", \"flatten\", \"linear 10\"]\n\
                    [optimizer]\nkind = \"sgd\"\nmomentum = 0.9\n";
        parse(&format!("{head}{text}"))
    };
    let groups = "[[groups]]\nparams = \"conv1.weight\"\nmuon = true\nsteps = 5\nnormalise = false\n\
                  [[groups]]\nparams = \"*.bias\"\nrate = 2\nschedule = { kind = \"linear\", total = 3 }\n";
    let read = with(groups).unwrap().recipe.groups;
    let schedule = Some(Schedule::Linear { total: 3, end: 0.0 });
    let muon = Some(Muon { steps: 5, normalise: false });
    let expect = [Group { muon, ..Group::new("conv1.weight") }, Group { rate: 2.0, schedule, ..Group::new("*.bias") }];
    assert_eq!(read, expect);
    let refused = |text: &str, words: &str| {
        let why = with(text).unwrap_err();
        assert!(why.starts_with("my.toml, line ") && why.contains(words), "{why}");
    };
    refused("[[groups]]\nrate = 1", "`groups.params` is missing");
    refused("[[groups]]\nparams = \"fc1.weight\"\nmuon = true", "Muon works on filters");
    refused("[[groups]]\nparams = \"conv7.*\"", "names of trained parameters");
    refused("[[groups]]\nparams = \"*\"\nschedule = { kind = \"constant\", by = \"step\" }", "is the recipe's");
    refused("[initial]\nfactors = [1]", "`initial.factors` is a list");
}
