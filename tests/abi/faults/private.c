/* The library a plugin brings along. */
int fault_private_number(void);
int fault_private_number(void) { return 7; }
