package record

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

const linkUUID = "bd3f5d5029c394ec1e34928d68a8f59d"

// machineFiles makes the files of a machine: one GPU behind a port.
func machineFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("proc/driver/nvidia/gpus/0000:09:00.0/information", "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-????????-????-????-????-????????????\n")
	write("proc/driver/nvidia/gpus/0000:18:00.0/information",
		"Model: \t\t NVIDIA H200\nIRQ:   \t\t 42\nGPU UUID: \t GPU-bd3f5d50-29c3-94ec-1e34-928d68a8f59d\nBus Type: \t PCIe\n")
	for name, text := range files {
		write("sys/devices/pci0000:17/0000:17:01.0/"+name, text+"\n")
	}
	bus := filepath.Join(root, "sys/bus/pci/devices")
	must.Do(t, os.MkdirAll(bus, 0o700))
	must.Do(t, os.Symlink("../../../devices/pci0000:17/0000:17:01.0/0000:18:00.0", filepath.Join(bus, "0000:18:00.0")))
	return root
}

func TestPCIeLink(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  tracelog.Device
	}{
		"a GPU at rest, in a narrower slot of an older port": {map[string]string{
			"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "8",
			"0000:18:00.0/max_link_speed": "32.0 GT/s PCIe", "0000:18:00.0/max_link_width": "16",
			"0000:18:00.0/current_link_speed": "2.5 GT/s PCIe", "0000:18:00.0/current_link_width": "8",
		}, tracelog.Device{PCI: "0000:18:00.0", PCIeGeneration: 1, PCIeWidth: 8, PCIeMaxGeneration: 4, PCIeMaxWidth: 8}},
		"a virtual machine without the port": {map[string]string{
			"0000:18:00.0/max_link_speed": "32.0 GT/s PCIe", "0000:18:00.0/max_link_width": "16",
			"0000:18:00.0/current_link_speed": "32.0 GT/s PCIe", "0000:18:00.0/current_link_width": "16",
		}, tracelog.Device{PCI: "0000:18:00.0", PCIeGeneration: 5, PCIeWidth: 16, PCIeMaxGeneration: 5, PCIeMaxWidth: 16}},
		"a link that does not answer": {map[string]string{
			"0000:18:00.0/max_link_speed": "Unknown", "0000:18:00.0/max_link_width": "255", "0000:18:00.0/current_link_width": "",
		}, tracelog.Device{PCI: "0000:18:00.0"}},
		"without /sys": {nil, tracelog.Device{PCI: "0000:18:00.0"}},
	} {
		got := tracelog.Device{UUID: linkUUID}
		test.want.UUID = linkUUID
		if addPCIeLink(&got, machineFiles(t, test.files)); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestUnknownGPU(t *testing.T) {
	t.Parallel()
	for _, uuid := range []string{"", "00112233445566778899aabbccddeeff"} {
		for _, root := range []string{machineFiles(t, nil), "/"} {
			got := tracelog.Device{UUID: uuid}
			if addPCIeLink(&got, root); got != (tracelog.Device{UUID: uuid}) {
				t.Errorf("%q: %+v", uuid, got)
			}
		}
	}
}
