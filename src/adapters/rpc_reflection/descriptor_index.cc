#include "adapters/rpc_reflection/descriptor_index.h"

#include <algorithm>
#include <set>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

namespace nstance::rpc_reflection {
namespace {

namespace pb = google::protobuf;

template <class Map>
auto FindIn(const Map& map, std::string_view name) {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : found->second;
}

// Imports form no ring: protoc refuses one.
void AppendWithImports(const pb::FileDescriptor& file, std::set<const pb::FileDescriptor*>& seen,
                       std::vector<std::string>& out) {
  if (!seen.insert(&file).second) return;
  pb::FileDescriptorProto proto;
  file.CopyTo(&proto);
  out.push_back(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AppendWithImports(*file.dependency(i), seen, out);
  }
}

}  // namespace

DescriptorIndex::DescriptorIndex(const std::vector<std::string>& services) {
  for (const std::string& name : services) {
    const pb::ServiceDescriptor* service =
        pb::DescriptorPool::generated_pool()->FindServiceByName(name);
    if (service == nullptr) continue;
    services_.push_back(name);
    AddFile(*service->file());
  }
  std::ranges::sort(services_);
  const auto repeated = std::ranges::unique(services_);
  services_.erase(repeated.begin(), repeated.end());
}

const pb::FileDescriptor* DescriptorIndex::FindFile(std::string_view name) const {
  return FindIn(files_, name);
}

const pb::FileDescriptor* DescriptorIndex::FindSymbol(std::string_view name) const {
  return FindIn(symbols_, name);
}

bool DescriptorIndex::HasMessage(std::string_view name) const {
  return FindIn(messages_, name) != nullptr;
}

std::vector<std::string> DescriptorIndex::WithImports(const pb::FileDescriptor& file) {
  std::vector<std::string> out;
  std::set<const pb::FileDescriptor*> seen;
  AppendWithImports(file, seen, out);
  return out;
}

void DescriptorIndex::AddFile(const pb::FileDescriptor& file) {
  if (!files_.emplace(file.name(), &file).second) return;
  for (int i = 0; i < file.message_type_count(); ++i) AddMessage(*file.message_type(i));
  for (int i = 0; i < file.enum_type_count(); ++i) AddEnum(*file.enum_type(i));
  for (int i = 0; i < file.service_count(); ++i) AddService(*file.service(i));
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i));
}

void DescriptorIndex::AddMessage(const pb::Descriptor& message) {
  symbols_.emplace(message.full_name(), message.file());
  messages_.emplace(message.full_name(), &message);
  for (int i = 0; i < message.field_count(); ++i) {
    symbols_.emplace(message.field(i)->full_name(), message.file());
  }
  for (int i = 0; i < message.nested_type_count(); ++i) AddMessage(*message.nested_type(i));
  for (int i = 0; i < message.enum_type_count(); ++i) AddEnum(*message.enum_type(i));
}

void DescriptorIndex::AddEnum(const pb::EnumDescriptor& type) {
  symbols_.emplace(type.full_name(), type.file());
  for (int i = 0; i < type.value_count(); ++i) {
    symbols_.emplace(type.value(i)->full_name(), type.file());
  }
}

void DescriptorIndex::AddService(const pb::ServiceDescriptor& service) {
  symbols_.emplace(service.full_name(), service.file());
  for (int i = 0; i < service.method_count(); ++i) {
    symbols_.emplace(service.method(i)->full_name(), service.file());
  }
}

}  // namespace nstance::rpc_reflection
