# Makes every measurement that this repository publishes from an NVIDIA H100 once. `cargo xtask publish --commands --gpu h100` prints it.
# Each command stands for itself: run the file as a whole with `bash`, or copy single commands, in the repository's folder.
#
# Before: `cargo install --path crates/warpbook-cli` for the current kernels, `pip install torch ./notebooks/pytorch`, and
# `cargo build --release -p warpbook-op` for our layers in PyTorch.
# data/mnist has MNIST's four files, and data/cifar10 CIFAR-10's six binary files.

mkdir -p target/publish
# Experiments without --data look for these files here, too.
export WARPBOOK_DATA="$PWD/data"

# ---- On 1 GPU ----

# data/results/regression-h100.json
warpbook run regression --points 100000,500000,1000000,5000000,10000000,50000000,200000000 --also 5000000x16 --epochs 200 --lr 0.01 --noise 0.1 --seed 1 --counters --out data/results/regression-h100.json &&
  python3 notebooks/pytorch/regression.py --like data/results/regression-h100.json --ways pytorch_linear,pytorch_eager,pytorch_compiled,pytorch_graph,pytorch_expert --samples 15 --out target/publish/regression-pytorch-h100.json &&
  python3 notebooks/pytorch/regression.py --like data/results/regression-h100.json --ways pytorch_cpu --size 100k,500k,1M --samples 3 --out target/publish/regression-pytorch-cpu-h100.json &&
  warpbook xray regression --rung 05_persistent --points 5000000 --epochs 20 --lr 0.01 --noise 0.1 --seed 1 --no-parts --out target/publish/regression-xray-h100.json &&
  warpbook merge data/results/regression-h100.json target/publish/regression-pytorch-h100.json target/publish/regression-pytorch-cpu-h100.json target/publish/regression-xray-h100.json --out data/results/regression-h100.json

# data/results/matmul-h100.json
warpbook run matmul --shape 256x256x256,512x512x512,1024x1024x1024,2048x2048x2048,4096x4096x4096,8192x8192x8192,16384x16384x16384,1000x1000x1000,4097x4095x4093,128x8192x8192,8192x8192x128,64x4096x11008,65536x512x512 --dtype fp32,bf16 --also 256x256x256:tf32,256x256x256:fp16,512x512x512:tf32,512x512x512:fp16,1024x1024x1024:tf32,1024x1024x1024:fp16,2048x2048x2048:tf32,2048x2048x2048:fp16,4096x4096x4096:tf32,4096x4096x4096:fp16,8192x8192x8192:tf32,8192x8192x8192:fp16,16384x16384x16384:tf32,1000x1000x1000:tf32,1000x1000x1000:fp16,1536x1536x1536:bf16,1536x1536x1536:bf16:nt,3000x5000x7000:bf16,3000x5000x7000:bf16:nt --seed 1 --out data/results/matmul-h100.json &&
  warpbook run matmul --shape none --dtype fp32,bf16 --also 512x128x9216:fp16:nt,512x128x9216:bf16:nt,512x9216x128:fp16,512x9216x128:bf16,128x9216x512:fp16:tn,128x9216x512:bf16:tn,1024x128x9216:fp16:nt,1024x128x9216:bf16:nt,1024x9216x128:fp16,1024x9216x128:bf16,128x9216x1024:fp16:tn,128x9216x1024:bf16:tn,512x10x128:fp16:nt,512x10x128:bf16:nt,512x128x10:fp16,512x128x10:bf16,10x128x512:fp16:tn,10x128x512:bf16:tn,128x512x2048:fp16:nt,128x512x2048:bf16:nt,128x2048x512:fp16,128x2048x512:bf16,512x2048x128:fp16:tn,512x2048x128:bf16:tn,512x512x2048:fp16:nt,512x512x2048:bf16:nt,512x2048x512:fp16,512x2048x512:bf16,512x2048x512:fp16:tn,512x2048x512:bf16:tn,512x10x512:fp16:nt,512x10x512:bf16:nt,512x512x10:fp16,512x512x10:bf16,10x512x512:fp16:tn,10x512x512:bf16:tn,512x4096x4096:fp16:nt,512x4096x4096:bf16:nt,512x4096x4096:fp16,512x4096x4096:bf16,4096x4096x512:fp16:tn,4096x4096x512:bf16:tn --seed 1 --no-transfers --rungs as_chosen,cublas,cublaslt --out target/publish/matmul-layers-h100.json &&
  python3 notebooks/pytorch/matmul.py --like target/publish/matmul-layers-h100.json --ways torch_matmul,torch_matmul_graph --budget 0.2 --out target/publish/matmul-layers-pytorch-h100.json &&
  warpbook xray matmul --rung 12_warp_specialised --shape 2048x2048x2048 --dtype bf16 --seed 1 --no-transfers --out target/publish/matmul-xray-h100.json &&
  warpbook merge data/results/matmul-h100.json target/publish/matmul-layers-h100.json target/publish/matmul-layers-pytorch-h100.json target/publish/matmul-xray-h100.json --out data/results/matmul-h100.json

# data/results/convolution-h100.json
warpbook run convolution --layer mnist-1,mnist-2,cifar10-1,cifar10-2,cifar10-3 --pass forward,input-gradient,weight-gradient --dtype fp16,bf16 --seed 1 --out data/results/convolution-h100.json &&
  python3 notebooks/pytorch/convolution.py --like data/results/convolution-h100.json --out target/publish/convolution-pytorch-h100.json &&
  warpbook merge data/results/convolution-h100.json target/publish/convolution-pytorch-h100.json --out data/results/convolution-h100.json

# data/results/training-h100.json
warpbook run training --network mnist,cifar10,amp-recipe --batch published --seed 1 --out data/results/training-h100.json &&
  python3 notebooks/pytorch/training.py --like data/results/training-h100.json --samples 25 --budget 0.3 --out target/publish/training-pytorch-h100.json &&
  warpbook merge data/results/training-h100.json target/publish/training-pytorch-h100.json --out data/results/training-h100.json

# data/results/softmax-h100.json
cargo run --release -p warpbook --example softmax -- 65536 data/results/softmax-h100.json &&
  python3 notebooks/pytorch/softmax.py --like data/results/softmax-h100.json --out target/publish/softmax-pytorch-h100.json &&
  warpbook merge data/results/softmax-h100.json target/publish/softmax-pytorch-h100.json --out data/results/softmax-h100.json

# data/results/guide-accumulation-h100.json
warpbook run guide --pair accumulation --counters --out data/results/guide-accumulation-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-accumulation-h100.json --out target/publish/guide-accumulation-pytorch-h100.json &&
  warpbook merge data/results/guide-accumulation-h100.json target/publish/guide-accumulation-pytorch-h100.json --out data/results/guide-accumulation-h100.json

# data/results/guide-allocation-h100.json
warpbook run guide --pair allocation --counters --out data/results/guide-allocation-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-allocation-h100.json --out target/publish/guide-allocation-pytorch-h100.json &&
  warpbook merge data/results/guide-allocation-h100.json target/publish/guide-allocation-pytorch-h100.json --out data/results/guide-allocation-h100.json

# data/results/guide-bank-conflicts-h100.json
warpbook run guide --pair bank-conflicts --counters --out data/results/guide-bank-conflicts-h100.json

# data/results/guide-batches-h100.json
warpbook run guide --pair batches --counters --out data/results/guide-batches-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-batches-h100.json --out target/publish/guide-batches-pytorch-h100.json &&
  warpbook merge data/results/guide-batches-h100.json target/publish/guide-batches-pytorch-h100.json --out data/results/guide-batches-h100.json

# data/results/guide-checkpointing-h100.json
warpbook run guide --pair checkpointing --counters --out data/results/guide-checkpointing-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-checkpointing-h100.json --out target/publish/guide-checkpointing-pytorch-h100.json &&
  warpbook merge data/results/guide-checkpointing-h100.json target/publish/guide-checkpointing-pytorch-h100.json --out data/results/guide-checkpointing-h100.json

# data/results/guide-coalescing-h100.json
warpbook run guide --pair coalescing --counters --out data/results/guide-coalescing-h100.json

# data/results/guide-copy-back-h100.json
warpbook run guide --pair copy-back --counters --out data/results/guide-copy-back-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-copy-back-h100.json --out target/publish/guide-copy-back-pytorch-h100.json &&
  warpbook merge data/results/guide-copy-back-h100.json target/publish/guide-copy-back-pytorch-h100.json --out data/results/guide-copy-back-h100.json

# data/results/guide-divergence-h100.json
warpbook run guide --pair divergence --counters --out data/results/guide-divergence-h100.json

# data/results/guide-fusion-h100.json
warpbook run guide --pair fusion --counters --out data/results/guide-fusion-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-fusion-h100.json --out target/publish/guide-fusion-pytorch-h100.json &&
  warpbook merge data/results/guide-fusion-h100.json target/publish/guide-fusion-pytorch-h100.json --out data/results/guide-fusion-h100.json

# data/results/guide-gather-h100.json
warpbook run guide --pair gather --counters --out data/results/guide-gather-h100.json

# data/results/guide-jit-expression-h100.json
warpbook run guide --pair jit-expression --counters --out data/results/guide-jit-expression-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-jit-expression-h100.json --out target/publish/guide-jit-expression-pytorch-h100.json &&
  warpbook merge data/results/guide-jit-expression-h100.json target/publish/guide-jit-expression-pytorch-h100.json --out data/results/guide-jit-expression-h100.json

# data/results/guide-latency-h100.json
warpbook run guide --pair latency --counters --out data/results/guide-latency-h100.json

# data/results/guide-layout-h100.json
warpbook run guide --pair layout --counters --out data/results/guide-layout-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-layout-h100.json --out target/publish/guide-layout-pytorch-h100.json &&
  warpbook merge data/results/guide-layout-h100.json target/publish/guide-layout-pytorch-h100.json --out data/results/guide-layout-h100.json

# data/results/guide-loader-h100.json
warpbook run guide --pair loader --counters --out data/results/guide-loader-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-loader-h100.json --out target/publish/guide-loader-pytorch-h100.json &&
  warpbook merge data/results/guide-loader-h100.json target/publish/guide-loader-pytorch-h100.json --out data/results/guide-loader-h100.json

# data/results/guide-made-on-device-h100.json
warpbook run guide --pair made-on-device --counters --out data/results/guide-made-on-device-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-made-on-device-h100.json --out target/publish/guide-made-on-device-pytorch-h100.json &&
  warpbook merge data/results/guide-made-on-device-h100.json target/publish/guide-made-on-device-pytorch-h100.json --out data/results/guide-made-on-device-h100.json

# data/results/guide-memory-latency-h100.json
warpbook run guide --pair memory-latency --counters --out data/results/guide-memory-latency-h100.json

# data/results/guide-occupancy-h100.json
warpbook run guide --pair occupancy --counters --out data/results/guide-occupancy-h100.json

# data/results/guide-pinned-h100.json
warpbook run guide --pair pinned --counters --out data/results/guide-pinned-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-pinned-h100.json --out target/publish/guide-pinned-pytorch-h100.json &&
  warpbook merge data/results/guide-pinned-h100.json target/publish/guide-pinned-pytorch-h100.json --out data/results/guide-pinned-h100.json

# data/results/guide-power-h100.json
warpbook run guide --pair power --counters --out data/results/guide-power-h100.json

# data/results/guide-precision-h100.json
warpbook run guide --pair precision --counters --out data/results/guide-precision-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-precision-h100.json --out target/publish/guide-precision-pytorch-h100.json &&
  warpbook merge data/results/guide-precision-h100.json target/publish/guide-precision-pytorch-h100.json --out data/results/guide-precision-h100.json

# data/results/guide-reduction-h100.json
warpbook run guide --pair reduction --counters --out data/results/guide-reduction-h100.json

# data/results/guide-small-network-h100.json
warpbook run guide --pair small-network --counters --out data/results/guide-small-network-h100.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-small-network-h100.json --out target/publish/guide-small-network-pytorch-h100.json &&
  warpbook merge data/results/guide-small-network-h100.json target/publish/guide-small-network-pytorch-h100.json --out data/results/guide-small-network-h100.json

# data/results/guide-vector-loads-h100.json
warpbook run guide --pair vector-loads --counters --out data/results/guide-vector-loads-h100.json

# data/findings/nvidia-h100.json
warpbook survey matmul --published --tune full --no-findings --out target/publish/products-h100.json &&
  warpbook survey matmul --seed 877590639 --tune quick --no-findings --out target/publish/survey-h100.json &&
  python3 data/findings/make.py target/publish/products-h100.json target/publish/survey-h100.json > data/findings/nvidia-h100.json

# Tables, pictures and the list of records
cargo xtask publish
# Lessons that read or quote a record: cargo xtask notebooks --write
