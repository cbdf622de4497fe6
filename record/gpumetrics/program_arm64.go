package gpumetrics

import _ "embed"

//go:embed sampler_arm64.bin
var program []byte
