//go:build !amd64 && !arm64

package cupti

// library is empty where CUDA does not exist.
var library []byte
