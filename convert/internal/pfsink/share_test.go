package pfsink

import (
	"regexp"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// TestShares compares the rate of a copy with what its way gives: PCIe 5.0 with 16 lanes carries 63 GB/s, and the
// memory of an H200 4,814 GB/s, half of it for a copy.
func TestShares(t *testing.T) {
	t.Parallel()
	h200 := timeline.GPU{Name: "NVIDIA H200", Bandwidth: 4_814_304_000, Link: timeline.Link{Generation: 1, MaxGeneration: 5, Width: 16}}
	shares := regexp.MustCompile(`(throughput_GBps|\w+_share_percent) \w+: [\d.]+`)
	for name, c := range map[string]struct {
		gpu  timeline.GPU
		copy timeline.MemcpyShape
		want []string
	}{
		"host to device":   {h200, timeline.MemcpyShape{CopyKind: 1}, []string{"throughput_GBps double_value: 57.5", "link_share_percent uint_value: 91"}},
		"device to host":   {h200, timeline.MemcpyShape{CopyKind: 2}, []string{"throughput_GBps double_value: 57.5", "link_share_percent uint_value: 91"}},
		"host to array":    {h200, timeline.MemcpyShape{CopyKind: 3}, []string{"throughput_GBps double_value: 57.5", "link_share_percent uint_value: 91"}},
		"within a device":  {h200, timeline.MemcpyShape{CopyKind: 8}, []string{"throughput_GBps double_value: 57.5", "memory_share_percent uint_value: 2"}},
		"between devices":  {h200, timeline.MemcpyShape{CopyKind: 10, DstDevice: 1}, []string{"throughput_GBps double_value: 57.5"}},
		"other's memory":   {h200, timeline.MemcpyShape{CopyKind: 8, DstDevice: 1}, []string{"throughput_GBps double_value: 57.5"}},
		"within the host":  {h200, timeline.MemcpyShape{CopyKind: 9}, []string{"throughput_GBps double_value: 57.5"}},
		"an unknown link":  {timeline.GPU{}, timeline.MemcpyShape{CopyKind: 1}, []string{"throughput_GBps double_value: 57.5"}},
		"unknown capacity": {timeline.GPU{}, timeline.MemcpyShape{CopyKind: 8}, []string{"throughput_GBps double_value: 57.5"}},
	} {
		c.copy.Bytes, c.gpu.Index = 57_500_000, context.GPU
		got := shares.FindAllString(text(t, encoded(t, []timeline.Event{recording, &timeline.GPUs{List: []timeline.GPU{{Name: "another"}, c.gpu}}, process, context, stream,
			&timeline.WorkList{Stream: stream, List: []timeline.Work{work(1, 100, 1_000_000, timeline.MemcpyWork, &timeline.Shape{Memcpy: c.copy})}}})), -1)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
