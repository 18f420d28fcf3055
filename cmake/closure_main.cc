// The body of every `<module>_closure` program. The proof is that it links: the module's whole
// archive, with no other module than those that it declares.
int main() { return 0; }
