package metadata

import (
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// A GPU is what the driver says of a GPU below /proc; what it does not say is "".
type GPU struct {
	PCI, Model, Minor string // address, name, number of its device file
	UUID              string // in hexadecimal
}

// GPUs lists the GPUs of the driver in a file system: none without NVIDIA's part of /proc, as in some containers.
func GPUs(root string) (list []GPU) {
	files, _ := filepath.Glob(filepath.Join(root, "proc/driver/nvidia/gpus/*/information"))
	for _, file := range files {
		g := GPU{PCI: filepath.Base(filepath.Dir(file))}
		text, _ := procfs.Read(file, procfs.MaxFacts) // a file that has just gone has no lines
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); key {
			case "Model":
				g.Model = value
			case "Device Minor":
				g.Minor = value
			case "GPU UUID":
				digits := strings.ReplaceAll(strings.TrimPrefix(value, "GPU-"), "-", "")
				if _, err := hex.DecodeString(digits); err == nil {
					g.UUID = digits
				}
			}
		}
		list = append(list, g)
	}
	return list
}
