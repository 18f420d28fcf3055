// DescriptorIndex: everything that some services are made of, by file name and by symbol.
//
// Made once from the names of the services; what is asked for later is only looked up here.
// Immutable; the descriptors live as long as the program.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
class EnumDescriptor;
class FileDescriptor;
class ServiceDescriptor;
}  // namespace google::protobuf

namespace nstance::rpc_reflection {

class DescriptorIndex final {
 public:
  // Services that the generated code does not know are left out.
  explicit DescriptorIndex(const std::vector<std::string>& services);

  // Sorted, each once.
  [[nodiscard]] const std::vector<std::string>& services() const { return services_; }

  // A file of the services, or one that such a file imports; null when there is none.
  [[nodiscard]] const google::protobuf::FileDescriptor* FindFile(std::string_view name) const;
  // The file with that message, field, enum, enum value, service or method; null likewise.
  [[nodiscard]] const google::protobuf::FileDescriptor* FindSymbol(std::string_view name) const;
  [[nodiscard]] bool HasMessage(std::string_view name) const;

  // The serialized descriptors of the file and of all that it imports, itself first, each once.
  [[nodiscard]] static std::vector<std::string> WithImports(
      const google::protobuf::FileDescriptor& file);

 private:
  void AddFile(const google::protobuf::FileDescriptor& file);
  void AddMessage(const google::protobuf::Descriptor& message);
  void AddEnum(const google::protobuf::EnumDescriptor& type);
  void AddService(const google::protobuf::ServiceDescriptor& service);

  std::vector<std::string> services_;
  std::map<std::string, const google::protobuf::FileDescriptor*, std::less<>> files_;
  std::map<std::string, const google::protobuf::FileDescriptor*, std::less<>> symbols_;
  std::map<std::string, const google::protobuf::Descriptor*, std::less<>> messages_;
};

}  // namespace nstance::rpc_reflection
