"""Who measured the times of `timings`."""

from __future__ import annotations

TENSORFLOW = "TensorFlow's benchmarks page (tensorflow.org/performance/benchmarks), May 2017: DGX-1, synthetic data"
LAMBDA = "github.com/lambdal/lambda-tensorflow-benchmark: V100 32 GB, TensorFlow 2.2, FP32, synthetic data"
TORCH = "github.com/rejunity/cnn-benchmarks: V100, Torch, cuDNN 7.0.4"
NVIDIA = "github.com/NVIDIA/DeepLearningExamples, TensorFlow's BERT: V100 32 GB, FP32"
HO = "github.com/ChenYuHo/SwitchML-omnetpp, ModelStats.cc: V100; the batch is not stated"
ADAM = (
    "github.com/kadamrahul18/GPT2-Optimization, benchmarks/bigpurple_v100_2026-01-08/1gpu/training_metrics.json: V100 16 GB, "
    "PyTorch, FP16 with AMP"
)
