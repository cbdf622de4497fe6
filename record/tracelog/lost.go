package tracelog

// Causes of loss: the Cause of a Lost record.
const (
	LostRingBuffer      = "ring_buffer"      // calls: the buffers of the probes were full
	LostThreadTable     = "thread_table"     // calls: more threads than the BPF map holds
	LostNesting         = "nesting"          // calls: nested deeper than the BPF program keeps
	LostCUPTIQueue      = "cupti_queue"      // activity records: the recorder read too slowly, the library reached its memory limit
	LostCUPTIDropped    = "cupti_dropped"    // activity records: CUPTI dropped them (cuptiActivityGetNumDroppedRecords)
	LostCUPTIBuffer     = "cupti_buffer"     // activity records: no buffer was left for CUPTI; at least so many
	LostCUPTITime       = "cupti_time"       // times: CUPTI gave none; the record is there
	LostCUPTIClock      = "cupti_clock"      // times: on no known clock; the record is there
	LostCUPTIName       = "cupti_name"       // names: the library's table was full; the record is there
	LostCUPTIUnreadable = "cupti_unreadable" // activity records: rests of buffers that CUPTI itself could not read
	LostCUPTIUnfinished = "cupti_unfinished" // ends: work was still running at the last flush; the record is there
	LostLogWrite        = "log_write"        // any record: the log could not be written
	LostStrings         = "strings"          // texts: the string table was full, or the text too long
)

// LostCauses lists every cause, in the order in which a summary names them.
var LostCauses = []string{
	LostRingBuffer, LostThreadTable, LostNesting,
	LostCUPTIQueue, LostCUPTIDropped, LostCUPTIBuffer, LostCUPTITime, LostCUPTIClock,
	LostCUPTIName, LostCUPTIUnreadable, LostCUPTIUnfinished,
	LostLogWrite, LostStrings,
}
