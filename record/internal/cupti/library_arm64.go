package cupti

import _ "embed"

//go:embed inject_arm64.so
var library []byte
