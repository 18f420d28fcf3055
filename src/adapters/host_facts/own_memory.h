// The memory of this process itself.
#pragma once

namespace nstance {

// Gives back what a start has used and a quiet process does not: free memory of the heap, and the
// pages of the program's own code and constants, which come back from the file when they are next
// touched. Costs a few page faults; changes nothing else. Any thread.
void ReturnUnusedMemory();

}  // namespace nstance
