package tracelog

// Causes of loss: the Cause of a Lost record.
const (
	LostRingBuffer   = "ring_buffer"   // calls: the BPF ring buffer was full
	LostThreadTable  = "thread_table"  // calls: more threads than the BPF map holds
	LostNesting      = "nesting"       // calls: nested deeper than the BPF program keeps
	LostCUPTIBuffer  = "cupti_buffer"  // activity records: the injected library reached its memory limit
	LostCUPTIDropped = "cupti_dropped" // activity records: CUPTI dropped them (cuptiActivityGetNumDroppedRecords)
	LostCUPTITime    = "cupti_time"    // activity records that have no times: CUPTI ran short of device buffer
	LostSocket       = "socket"        // activity records: the injected library could not send them
	LostLogWrite     = "log_write"     // any record: the log could not be written
	LostStrings      = "strings"       // texts: the string table was full, or the text too long
)

// LostCauses lists every cause, in the order in which a summary names them.
var LostCauses = []string{
	LostRingBuffer, LostThreadTable, LostNesting,
	LostCUPTIBuffer, LostCUPTIDropped, LostCUPTITime,
	LostSocket, LostLogWrite, LostStrings,
}
