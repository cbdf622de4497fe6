package gpumetrics

import _ "embed"

//go:embed sampler_amd64.bin
var program []byte
