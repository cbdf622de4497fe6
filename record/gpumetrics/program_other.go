//go:build !amd64 && !arm64

package gpumetrics

// program is empty where CUDA does not exist.
var program []byte
