package read

import (
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxGPUUsers bounds the processes outside the recording that are kept. They are a hint beside the
// samples: with so many, the first ones say as much.
const maxGPUUsers = 1 << 10

// Metrics are the sets of sampled metrics of a log, and the processes outside the recording that
// used the GPUs.
type Metrics struct {
	metriclog.Sets
	gpus  map[uint32]uint32 // timeline.GPU.Index of the sets of GPUs, by ID; Number fills it
	users []tracelog.GPUUser
	texts int // bytes of the names of users
}

// takeUser takes a process outside the recording.
func (m *Metrics) takeUser(b *tracelog.Block, i int) {
	var u tracelog.GPUUser
	u.Read(b, i)
	for k := range m.users {
		if o := &m.users[k]; o.UUID == u.UUID && o.User == u.User && o.Name == u.Name {
			o.From, o.To, o.Bytes = min(o.From, u.From), max(o.To, u.To), max(o.Bytes, u.Bytes)
			return
		}
	}
	if len(m.users) < maxGPUUsers {
		m.users = append(m.users, u)
		m.texts += len(u.Name)
	}
}

// GPU is the timeline's number of the GPU of a set; ok is false for a set that a filter leaves
// out.
func (m *Metrics) GPU(set uint32) (index uint32, ok bool) {
	index, ok = m.gpus[set]
	return index, ok
}

// sampled numbers the GPUs of the sets of a log. A GPU that no process of the log used is a new one.
func (v *Inventory) sampled(c *Catalog) {
	c.Metrics.gpus = make(map[uint32]uint32)
	for _, set := range c.Metrics.All() {
		if set.PID != 0 {
			continue
		}
		index, known := v.byUUID[set.UUID]
		if !c.wantsGPU(index, known, set.Device) {
			continue
		}
		if !known {
			d := c.GPUs.withUUID(set.UUID)
			d.PID, d.ID, d.UUID = 0, set.Device, set.UUID
			index = v.index(&d, c.Names.device(&d))
		}
		c.Metrics.gpus[set.ID] = index
	}
}

// withUUID is a device of the log with a UUID, without properties if there is none.
func (g *GPUs) withUUID(uuid string) tracelog.Device {
	for _, d := range g.devices {
		if d.UUID == uuid {
			return d
		}
	}
	return tracelog.Device{Name: "GPU"}
}

// wantsGPU reports whether the filter selects the samples of a GPU: with a limit of processes or devices, those
// of the GPUs that these processes used, by the processes' numbers.
func (c *Catalog) wantsGPU(index uint32, known bool, device uint32) bool {
	f := c.filter
	if f == nil || len(f.PIDs)+len(f.Devices) == 0 {
		return true
	}
	var keys []DeviceKey
	if known {
		keys = c.GPUs.Keys(index)
	}
	for _, key := range keys {
		if (len(f.PIDs) == 0 || slices.Contains(f.PIDs, key.PID)) &&
			(len(f.Devices) == 0 || slices.Contains(f.Devices, key.Device)) {
			return true
		}
	}
	return len(keys) == 0 && len(f.PIDs) == 0 && slices.Contains(f.Devices, device)
}

// Users returns the processes outside the recording that used the log's sampled GPUs.
func (c *Catalog) Users() (users []timeline.GPUUser) {
	for _, u := range c.Metrics.users {
		for _, set := range c.Metrics.All() {
			index, ok := c.Metrics.GPU(set.ID)
			if ok && strings.EqualFold(set.UUID, u.UUID) {
				users = append(users, timeline.GPUUser{
					GPU: index, PID: u.User, Name: u.Name, Start: u.From, End: u.To, Bytes: u.Bytes,
				})
				break
			}
		}
	}
	return users
}
