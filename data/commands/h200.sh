# Makes every measurement that this repository publishes from an NVIDIA H200 once. `cargo xtask publish --commands --gpu h200` prints it.
# Each command stands for itself: run the file as a whole with `bash`, or copy single commands, in the repository's folder.
#
# Before: `cargo install --path crates/warpbook-cli` for the current kernels, `pip install torch ./notebooks/pytorch`, and
# `cargo build --release -p warpbook-op` for our layers in PyTorch.
# data/mnist has MNIST's four files, and data/cifar10 CIFAR-10's six binary files, here recompressed as JPEG q75: leave --data-note out for others.

mkdir -p target/publish
# Experiments without --data look for these files here, too.
export WARPBOOK_DATA="$PWD/data"

# ---- On 1 GPU ----

# data/results/regression-h200.json
warpbook run regression --points 100000,500000,1000000,5000000,10000000,50000000,200000000 --also 5000000x16 --epochs 200 --lr 0.01 --noise 0.1 --seed 1 --counters --out data/results/regression-h200.json &&
  python3 notebooks/pytorch/regression.py --like data/results/regression-h200.json --ways pytorch_linear,pytorch_eager,pytorch_compiled,pytorch_graph,pytorch_expert --samples 15 --out target/publish/regression-pytorch-h200.json &&
  python3 notebooks/pytorch/regression.py --like data/results/regression-h200.json --ways pytorch_cpu --size 100k,500k,1M --samples 3 --out target/publish/regression-pytorch-cpu-h200.json &&
  warpbook xray regression --rung 05_persistent --points 5000000 --epochs 20 --lr 0.01 --noise 0.1 --seed 1 --no-parts --out target/publish/regression-xray-h200.json &&
  warpbook merge data/results/regression-h200.json target/publish/regression-pytorch-h200.json target/publish/regression-pytorch-cpu-h200.json target/publish/regression-xray-h200.json --out data/results/regression-h200.json

# data/results/matmul-h200.json
warpbook run matmul --shape 256x256x256,512x512x512,1024x1024x1024,2048x2048x2048,4096x4096x4096,8192x8192x8192,16384x16384x16384,1000x1000x1000,4097x4095x4093,128x8192x8192,8192x8192x128,64x4096x11008,65536x512x512 --dtype fp32,bf16 --also 256x256x256:tf32,256x256x256:fp16,512x512x512:tf32,512x512x512:fp16,1024x1024x1024:tf32,1024x1024x1024:fp16,2048x2048x2048:tf32,2048x2048x2048:fp16,4096x4096x4096:tf32,4096x4096x4096:fp16,8192x8192x8192:tf32,8192x8192x8192:fp16,16384x16384x16384:tf32,1000x1000x1000:tf32,1000x1000x1000:fp16,1536x1536x1536:bf16,1536x1536x1536:bf16:nt,3000x5000x7000:bf16,3000x5000x7000:bf16:nt --seed 1 --out data/results/matmul-h200.json &&
  warpbook run matmul --shape none --dtype fp32,bf16 --also 512x128x9216:fp16:nt,512x128x9216:bf16:nt,512x9216x128:fp16,512x9216x128:bf16,128x9216x512:fp16:tn,128x9216x512:bf16:tn,1024x128x9216:fp16:nt,1024x128x9216:bf16:nt,1024x9216x128:fp16,1024x9216x128:bf16,128x9216x1024:fp16:tn,128x9216x1024:bf16:tn,512x10x128:fp16:nt,512x10x128:bf16:nt,512x128x10:fp16,512x128x10:bf16,10x128x512:fp16:tn,10x128x512:bf16:tn,128x512x2048:fp16:nt,128x512x2048:bf16:nt,128x2048x512:fp16,128x2048x512:bf16,512x2048x128:fp16:tn,512x2048x128:bf16:tn,512x512x2048:fp16:nt,512x512x2048:bf16:nt,512x2048x512:fp16,512x2048x512:bf16,512x2048x512:fp16:tn,512x2048x512:bf16:tn,512x10x512:fp16:nt,512x10x512:bf16:nt,512x512x10:fp16,512x512x10:bf16,10x512x512:fp16:tn,10x512x512:bf16:tn,512x4096x4096:fp16:nt,512x4096x4096:bf16:nt,512x4096x4096:fp16,512x4096x4096:bf16,4096x4096x512:fp16:tn,4096x4096x512:bf16:tn --seed 1 --no-transfers --rungs as_chosen,cublas,cublaslt --out target/publish/matmul-layers-h200.json &&
  python3 notebooks/pytorch/matmul.py --like target/publish/matmul-layers-h200.json --ways torch_matmul,torch_matmul_graph --budget 0.2 --out target/publish/matmul-layers-pytorch-h200.json &&
  warpbook xray matmul --rung 12_warp_specialised --shape 2048x2048x2048 --dtype bf16 --seed 1 --no-transfers --out target/publish/matmul-xray-h200.json &&
  warpbook merge data/results/matmul-h200.json target/publish/matmul-layers-h200.json target/publish/matmul-layers-pytorch-h200.json target/publish/matmul-xray-h200.json --out data/results/matmul-h200.json

# data/results/convolution-h200.json
warpbook run convolution --layer mnist-1,mnist-2,cifar10-1,cifar10-2,cifar10-3 --pass forward,input-gradient,weight-gradient --dtype fp16,bf16 --seed 1 --out data/results/convolution-h200.json &&
  python3 notebooks/pytorch/convolution.py --like data/results/convolution-h200.json --out target/publish/convolution-pytorch-h200.json &&
  warpbook merge data/results/convolution-h200.json target/publish/convolution-pytorch-h200.json --out data/results/convolution-h200.json

# data/results/training-h200.json
warpbook run training --network mnist,cifar10,amp-recipe --batch published --seed 1 --out data/results/training-h200.json &&
  python3 notebooks/pytorch/training.py --like data/results/training-h200.json --samples 25 --budget 0.3 --out target/publish/training-pytorch-h200.json &&
  warpbook merge data/results/training-h200.json target/publish/training-pytorch-h200.json --out data/results/training-h200.json

# data/results/softmax-h200.json
cargo run --release -p warpbook --example softmax -- 65536 data/results/softmax-h200.json &&
  python3 notebooks/pytorch/softmax.py --like data/results/softmax-h200.json --out target/publish/softmax-pytorch-h200.json &&
  warpbook merge data/results/softmax-h200.json target/publish/softmax-pytorch-h200.json --out data/results/softmax-h200.json

# data/results/guide-accumulation-h200.json
warpbook run guide --pair accumulation --counters --out data/results/guide-accumulation-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-accumulation-h200.json --out target/publish/guide-accumulation-pytorch-h200.json &&
  warpbook merge data/results/guide-accumulation-h200.json target/publish/guide-accumulation-pytorch-h200.json --out data/results/guide-accumulation-h200.json

# data/results/guide-allocation-h200.json
warpbook run guide --pair allocation --counters --out data/results/guide-allocation-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-allocation-h200.json --out target/publish/guide-allocation-pytorch-h200.json &&
  warpbook merge data/results/guide-allocation-h200.json target/publish/guide-allocation-pytorch-h200.json --out data/results/guide-allocation-h200.json

# data/results/guide-bank-conflicts-h200.json
warpbook run guide --pair bank-conflicts --counters --out data/results/guide-bank-conflicts-h200.json

# data/results/guide-batches-h200.json
warpbook run guide --pair batches --counters --out data/results/guide-batches-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-batches-h200.json --out target/publish/guide-batches-pytorch-h200.json &&
  warpbook merge data/results/guide-batches-h200.json target/publish/guide-batches-pytorch-h200.json --out data/results/guide-batches-h200.json

# data/results/guide-checkpointing-h200.json
warpbook run guide --pair checkpointing --counters --out data/results/guide-checkpointing-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-checkpointing-h200.json --out target/publish/guide-checkpointing-pytorch-h200.json &&
  warpbook merge data/results/guide-checkpointing-h200.json target/publish/guide-checkpointing-pytorch-h200.json --out data/results/guide-checkpointing-h200.json

# data/results/guide-coalescing-h200.json
warpbook run guide --pair coalescing --counters --out data/results/guide-coalescing-h200.json

# data/results/guide-copy-back-h200.json
warpbook run guide --pair copy-back --counters --out data/results/guide-copy-back-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-copy-back-h200.json --out target/publish/guide-copy-back-pytorch-h200.json &&
  warpbook merge data/results/guide-copy-back-h200.json target/publish/guide-copy-back-pytorch-h200.json --out data/results/guide-copy-back-h200.json

# data/results/guide-divergence-h200.json
warpbook run guide --pair divergence --counters --out data/results/guide-divergence-h200.json

# data/results/guide-fusion-h200.json
warpbook run guide --pair fusion --counters --out data/results/guide-fusion-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-fusion-h200.json --out target/publish/guide-fusion-pytorch-h200.json &&
  warpbook merge data/results/guide-fusion-h200.json target/publish/guide-fusion-pytorch-h200.json --out data/results/guide-fusion-h200.json

# data/results/guide-gather-h200.json
warpbook run guide --pair gather --counters --out data/results/guide-gather-h200.json

# data/results/guide-jit-expression-h200.json
warpbook run guide --pair jit-expression --counters --out data/results/guide-jit-expression-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-jit-expression-h200.json --out target/publish/guide-jit-expression-pytorch-h200.json &&
  warpbook merge data/results/guide-jit-expression-h200.json target/publish/guide-jit-expression-pytorch-h200.json --out data/results/guide-jit-expression-h200.json

# data/results/guide-latency-h200.json
warpbook run guide --pair latency --counters --out data/results/guide-latency-h200.json

# data/results/guide-layout-h200.json
warpbook run guide --pair layout --counters --out data/results/guide-layout-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-layout-h200.json --out target/publish/guide-layout-pytorch-h200.json &&
  warpbook merge data/results/guide-layout-h200.json target/publish/guide-layout-pytorch-h200.json --out data/results/guide-layout-h200.json

# data/results/guide-loader-h200.json
warpbook run guide --pair loader --counters --out data/results/guide-loader-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-loader-h200.json --out target/publish/guide-loader-pytorch-h200.json &&
  warpbook merge data/results/guide-loader-h200.json target/publish/guide-loader-pytorch-h200.json --out data/results/guide-loader-h200.json

# data/results/guide-made-on-device-h200.json
warpbook run guide --pair made-on-device --counters --out data/results/guide-made-on-device-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-made-on-device-h200.json --out target/publish/guide-made-on-device-pytorch-h200.json &&
  warpbook merge data/results/guide-made-on-device-h200.json target/publish/guide-made-on-device-pytorch-h200.json --out data/results/guide-made-on-device-h200.json

# data/results/guide-memory-latency-h200.json
warpbook run guide --pair memory-latency --counters --out data/results/guide-memory-latency-h200.json

# data/results/guide-occupancy-h200.json
warpbook run guide --pair occupancy --counters --out data/results/guide-occupancy-h200.json

# data/results/guide-pinned-h200.json
warpbook run guide --pair pinned --counters --out data/results/guide-pinned-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-pinned-h200.json --out target/publish/guide-pinned-pytorch-h200.json &&
  warpbook merge data/results/guide-pinned-h200.json target/publish/guide-pinned-pytorch-h200.json --out data/results/guide-pinned-h200.json

# data/results/guide-power-h200.json
warpbook run guide --pair power --counters --out data/results/guide-power-h200.json

# data/results/guide-precision-h200.json
warpbook run guide --pair precision --counters --out data/results/guide-precision-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-precision-h200.json --out target/publish/guide-precision-pytorch-h200.json &&
  warpbook merge data/results/guide-precision-h200.json target/publish/guide-precision-pytorch-h200.json --out data/results/guide-precision-h200.json

# data/results/guide-reduction-h200.json
warpbook run guide --pair reduction --counters --out data/results/guide-reduction-h200.json

# data/results/guide-small-network-h200.json
warpbook run guide --pair small-network --counters --out data/results/guide-small-network-h200.json &&
  python3 notebooks/pytorch/guide.py --like data/results/guide-small-network-h200.json --out target/publish/guide-small-network-pytorch-h200.json &&
  warpbook merge data/results/guide-small-network-h200.json target/publish/guide-small-network-pytorch-h200.json --out data/results/guide-small-network-h200.json

# data/results/guide-vector-loads-h200.json
warpbook run guide --pair vector-loads --counters --out data/results/guide-vector-loads-h200.json

# data/results/mnist-to-99-h200.json
warpbook speedrun mnist --data data/mnist --precision amp-fp16 --epochs 8 --cold 10 --to 99 --out data/results/mnist-to-99-h200.json &&
  python3 notebooks/pytorch/mnist_to_99.py --like data/results/mnist-to-99-h200.json --data data/mnist --cold 5 --out target/publish/mnist-to-99-pytorch-h200.json &&
  warpbook merge data/results/mnist-to-99-h200.json target/publish/mnist-to-99-pytorch-h200.json --out data/results/mnist-to-99-h200.json

# data/results/loop-h200.json
warpbook run loop --data data/mnist --samples 3 --budget 60 --out data/results/loop-h200.json &&
  python3 notebooks/pytorch/loader_loop.py --like data/results/loop-h200.json --data data/mnist --budget 1 --out target/publish/loop-pytorch-h200.json &&
  warpbook merge data/results/loop-h200.json target/publish/loop-pytorch-h200.json --out data/results/loop-h200.json

# data/results/cifar10-speedrun-h200.json
warpbook speedrun cifar10-speedrun --data data/cifar10 --precision amp-bf16 --seeds 10 --to 90 --data-note 'recompressed as JPEG q75' --out data/results/cifar10-speedrun-h200.json &&
  python3 notebooks/pytorch/speedrun.py --like data/results/cifar10-speedrun-h200.json --data data/cifar10 --seeds 10 --way graph --mode default --out target/publish/cifar10-speedrun-pytorch-h200.json &&
  warpbook merge data/results/cifar10-speedrun-h200.json target/publish/cifar10-speedrun-pytorch-h200.json --out data/results/cifar10-speedrun-h200.json

# data/results/cifar10-speedrun-flips-h200.json
warpbook speedrun cifar10-speedrun --data data/cifar10 --precision amp-bf16 --views flips --seeds 10 --to 90 --data-note 'recompressed as JPEG q75' --out data/results/cifar10-speedrun-flips-h200.json

# data/results/cifar10-speedrun-cold-h200.json
warpbook speedrun cifar10-speedrun --data data/cifar10 --precision amp-bf16 --views flips --cold 5 --to 90 --data-note 'recompressed as JPEG q75' --out data/results/cifar10-speedrun-cold-h200.json

# data/results/train-mnist-h200.json
warpbook train mnist --data data/mnist --precision fp32 --batch 512 --epochs 20 --clip inf --log-every 10 --out data/results/train-mnist-h200.json &&
  warpbook train mnist --data data/mnist --precision amp-fp16 --batch 512 --epochs 20 --clip inf --log-every 10 --out target/publish/train-mnist-amp-fp16-512-h200.json &&
  warpbook train mnist --data data/mnist --precision amp-fp16 --batch 1024 --epochs 20 --clip inf --log-every 10 --out target/publish/train-mnist-amp-fp16-1024-h200.json &&
  warpbook merge data/results/train-mnist-h200.json target/publish/train-mnist-amp-fp16-512-h200.json target/publish/train-mnist-amp-fp16-1024-h200.json --out data/results/train-mnist-h200.json &&
  python3 notebooks/pytorch/trainings.py --like data/results/train-mnist-h200.json --data data/mnist --out target/publish/train-mnist-pytorch-h200.json &&
  warpbook merge data/results/train-mnist-h200.json target/publish/train-mnist-pytorch-h200.json --out data/results/train-mnist-h200.json

# data/results/train-cifar10-3-epochs-h200.json
warpbook train cifar10 --data data/cifar10 --precision fp32 --epochs 3 --seed 1 --clip inf --log-every 10 --out data/results/train-cifar10-3-epochs-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision fp32 --epochs 3 --seed 2 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-fp32-2-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision fp32 --epochs 3 --seed 3 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-fp32-3-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision fp32 --epochs 3 --seed 4 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-fp32-4-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision fp32 --epochs 3 --seed 5 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-fp32-5-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-fp16 --epochs 3 --seed 1 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-fp16-1-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-fp16 --epochs 3 --seed 2 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-fp16-2-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-fp16 --epochs 3 --seed 3 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-fp16-3-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-fp16 --epochs 3 --seed 4 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-fp16-4-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-fp16 --epochs 3 --seed 5 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-fp16-5-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-bf16 --epochs 3 --seed 1 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-bf16-1-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-bf16 --epochs 3 --seed 2 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-bf16-2-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-bf16 --epochs 3 --seed 3 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-bf16-3-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-bf16 --epochs 3 --seed 4 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-bf16-4-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-bf16 --epochs 3 --seed 5 --clip inf --log-every 10 --out target/publish/train-cifar10-3-epochs-amp-bf16-5-h200.json &&
  warpbook merge data/results/train-cifar10-3-epochs-h200.json target/publish/train-cifar10-3-epochs-fp32-2-h200.json target/publish/train-cifar10-3-epochs-fp32-3-h200.json target/publish/train-cifar10-3-epochs-fp32-4-h200.json target/publish/train-cifar10-3-epochs-fp32-5-h200.json target/publish/train-cifar10-3-epochs-amp-fp16-1-h200.json target/publish/train-cifar10-3-epochs-amp-fp16-2-h200.json target/publish/train-cifar10-3-epochs-amp-fp16-3-h200.json target/publish/train-cifar10-3-epochs-amp-fp16-4-h200.json target/publish/train-cifar10-3-epochs-amp-fp16-5-h200.json target/publish/train-cifar10-3-epochs-amp-bf16-1-h200.json target/publish/train-cifar10-3-epochs-amp-bf16-2-h200.json target/publish/train-cifar10-3-epochs-amp-bf16-3-h200.json target/publish/train-cifar10-3-epochs-amp-bf16-4-h200.json target/publish/train-cifar10-3-epochs-amp-bf16-5-h200.json --out data/results/train-cifar10-3-epochs-h200.json &&
  python3 notebooks/pytorch/trainings.py --like data/results/train-cifar10-3-epochs-h200.json --data data/cifar10 --out target/publish/train-cifar10-3-epochs-pytorch-h200.json &&
  warpbook merge data/results/train-cifar10-3-epochs-h200.json target/publish/train-cifar10-3-epochs-pytorch-h200.json --out data/results/train-cifar10-3-epochs-h200.json

# data/results/train-cifar10-20-epochs-h200.json
warpbook train cifar10 --data data/cifar10 --precision fp32 --epochs 20 --seed 1 --clip inf --log-every 10 --out data/results/train-cifar10-20-epochs-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision fp32 --epochs 20 --seed 2 --clip inf --log-every 10 --out target/publish/train-cifar10-20-epochs-fp32-2-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision fp32 --epochs 20 --seed 3 --clip inf --log-every 10 --out target/publish/train-cifar10-20-epochs-fp32-3-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-fp16 --epochs 20 --seed 1 --clip inf --log-every 10 --out target/publish/train-cifar10-20-epochs-amp-fp16-1-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-fp16 --epochs 20 --seed 2 --clip inf --log-every 10 --out target/publish/train-cifar10-20-epochs-amp-fp16-2-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-fp16 --epochs 20 --seed 3 --clip inf --log-every 10 --out target/publish/train-cifar10-20-epochs-amp-fp16-3-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-bf16 --epochs 20 --seed 1 --clip inf --log-every 10 --out target/publish/train-cifar10-20-epochs-amp-bf16-1-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-bf16 --epochs 20 --seed 2 --clip inf --log-every 10 --out target/publish/train-cifar10-20-epochs-amp-bf16-2-h200.json &&
  warpbook train cifar10 --data data/cifar10 --precision amp-bf16 --epochs 20 --seed 3 --clip inf --log-every 10 --out target/publish/train-cifar10-20-epochs-amp-bf16-3-h200.json &&
  warpbook merge data/results/train-cifar10-20-epochs-h200.json target/publish/train-cifar10-20-epochs-fp32-2-h200.json target/publish/train-cifar10-20-epochs-fp32-3-h200.json target/publish/train-cifar10-20-epochs-amp-fp16-1-h200.json target/publish/train-cifar10-20-epochs-amp-fp16-2-h200.json target/publish/train-cifar10-20-epochs-amp-fp16-3-h200.json target/publish/train-cifar10-20-epochs-amp-bf16-1-h200.json target/publish/train-cifar10-20-epochs-amp-bf16-2-h200.json target/publish/train-cifar10-20-epochs-amp-bf16-3-h200.json --out data/results/train-cifar10-20-epochs-h200.json &&
  python3 notebooks/pytorch/trainings.py --like data/results/train-cifar10-20-epochs-h200.json --data data/cifar10 --out target/publish/train-cifar10-20-epochs-pytorch-h200.json &&
  warpbook merge data/results/train-cifar10-20-epochs-h200.json target/publish/train-cifar10-20-epochs-pytorch-h200.json --out data/results/train-cifar10-20-epochs-h200.json

# data/surveys/matmul-h200-227483302.json
warpbook survey matmul --seed 227483302 --out data/surveys/matmul-h200-227483302.json

# data/surveys/matmul-h200-564025333.json
warpbook survey matmul --seed 564025333 --out data/surveys/matmul-h200-564025333.json

# data/surveys/matmul-h200-918273645.json
warpbook survey matmul --seed 918273645 --out data/surveys/matmul-h200-918273645.json

# data/findings/nvidia-h200.json
python3 data/findings/make.py data/results/matmul-h200.json data/surveys/matmul-h200-227483302.json data/surveys/matmul-h200-564025333.json > data/findings/nvidia-h200.json

# ---- On 2 GPUs ----

# data/results/tensor-parallel-h200-x2.json
warpbook run tensor-parallel --shape 8192x8192x8192 --dtype bf16 --gpus 2 --seed 1 --out data/results/tensor-parallel-h200-x2.json

# ---- On 4 GPUs ----

# data/results/tensor-parallel-h200-x4.json
warpbook run tensor-parallel --shape 8192x8192x8192 --dtype bf16 --gpus 4 --seed 1 --out data/results/tensor-parallel-h200-x4.json

# data/results/scaling-h200-x4.json
python3 notebooks/pytorch/ddp.py --gpus 4 --network cifar10 --batch 512 256 128 64 32 --out target/publish/ddp-cifar10-h200-x4.json &&
  warpbook scaling --gpus 4 --network cifar10 --batch 512,128 --precision amp-fp16,amp-bf16,fp32 --synthetic --samples 7 --pytorch target/publish/ddp-cifar10-h200-x4.json --out data/results/scaling-h200-x4.json &&
  python3 notebooks/pytorch/ddp.py --gpus 4 --network amp-recipe --batch 512 --out target/publish/ddp-amp-recipe-h200-x4.json &&
  warpbook scaling --gpus 4 --network amp-recipe --batch 512 --growth weak --precision amp-fp16,amp-bf16,fp32 --no-one-process --samples 7 --pytorch target/publish/ddp-amp-recipe-h200-x4.json --out target/publish/scaling-amp-recipe-h200-x4.json &&
  warpbook merge data/results/scaling-h200-x4.json target/publish/scaling-amp-recipe-h200-x4.json --out data/results/scaling-h200-x4.json

# Tables, pictures and the list of records
cargo xtask publish
# Lessons that read or quote a record: cargo xtask notebooks --write
