// Package pcie finds the PCIe link of a GPU. The input is the GPU's UUID. The output is its PCI
// address and what the kernel says of the link in /sys. No driver of NVIDIA's is called.
package pcie

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// A Link is the PCIe link of a GPU. A number is 0 where the kernel does not tell it.
type Link struct {
	Address string // of the GPU: 0000:18:00.0

	Generation, Width       uint32 // now; a GPU without work may have lowered the generation
	MaxGeneration, MaxWidth uint32 // most that both ends of the link can do
}

// Of returns the link of the GPU with a UUID, 16 bytes in hexadecimal. The zero Link stands for a
// GPU that cannot be found: without NVIDIA's part of /proc, as in some containers.
func Of(uuid string) Link { return find("/", uuid) }

func find(root, uuid string) Link {
	if uuid == "" {
		return Link{}
	}
	address := addressOf(root, uuid)
	if address == "" {
		return Link{}
	}
	device, err := filepath.EvalSymlinks(filepath.Join(root, "sys/bus/pci/devices", address))
	if err != nil {
		return Link{Address: address}
	}
	port := filepath.Dir(device) // the other end
	return Link{
		Address:       address,
		Generation:    generation(device, "current_link_speed"),
		Width:         number(device, "current_link_width"),
		MaxGeneration: least(generation(device, "max_link_speed"), generation(port, "max_link_speed")),
		MaxWidth:      least(number(device, "max_link_width"), number(port, "max_link_width")),
	}
}

// addressOf returns the PCI address of a GPU: the name of the folder in which the driver shows the
// GPU's UUID.
func addressOf(root, uuid string) string {
	files, err := filepath.Glob(filepath.Join(root, "proc/driver/nvidia/gpus/*/information"))
	if err != nil {
		return ""
	}
	for _, f := range files {
		text, err := procfs.Read(f, procfs.MaxFacts)
		if err == nil && uuidIn(string(text)) == uuid {
			return filepath.Base(filepath.Dir(f))
		}
	}
	return ""
}

// uuidIn returns the UUID in the driver's description of a GPU, "GPU UUID: GPU-bd3f5d50-29c3-...".
func uuidIn(information string) string {
	for line := range strings.Lines(information) {
		key, value, _ := strings.Cut(line, ":")
		if key != "GPU UUID" {
			continue
		}
		digits := strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(value), "GPU-"), "-", "")
		if _, err := hex.DecodeString(digits); err == nil {
			return digits
		}
	}
	return ""
}

// generations are the PCIe generations by their rate, as /sys writes it: "32.0 GT/s PCIe".
var generations = map[string]uint32{"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6, "128.0": 7}

func generation(device, file string) uint32 {
	rate, _, _ := strings.Cut(read(device, file), " ")
	return generations[rate]
}

func number(device, file string) uint32 {
	n, err := strconv.ParseUint(read(device, file), 10, 8) // 255 lanes are those of a device that does not answer
	if err != nil || n == 255 {
		return 0
	}
	return uint32(n)
}

func read(device, file string) string {
	text, err := os.ReadFile(filepath.Join(device, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// least is the lesser of two numbers, of which either may be unknown.
func least(a, b uint32) uint32 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
