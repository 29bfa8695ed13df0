/* A host in C11: prints the ABI number that the library serves. */
#include <plait/plait.h>
#include <stdio.h>

int main(void) {
  printf("abi %u\n", (unsigned)plait_abi_version());
  return 0;
}
