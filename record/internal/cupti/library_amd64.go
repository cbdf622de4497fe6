package cupti

import _ "embed"

//go:embed inject_amd64.so
var library []byte
